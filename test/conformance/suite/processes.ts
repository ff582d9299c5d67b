/** The native processes of a member in a process sandbox, as the kernel lists them. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { listSlot, type ProcessEntry, type SlotMark } from "../../../bridge/census.ts";
import { readRecords } from "../../../bridge/journal-record.ts";
import { SLOT_VARIABLE } from "../../../bridge/slots.ts";
import type { ControlEvent } from "../../../protocol/events.ts";
import { until } from "../../support/until.ts";

/** Ids of sandboxes are of chance in tests, so the store's id in front of them need not be known. */
export function slotOf(sandbox: string, member: string): SlotMark {
  const own = `/${sandbox}/${member}`;
  const values = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => environmentOfAny(pid, SLOT_VARIABLE));
  const value = values.find((each) => each.endsWith(own)) ?? own;
  return { kind: "environment", variable: SLOT_VARIABLE, value };
}

/** Nothing of a process that is gone, or another user's. */
function environmentOfAny(pid: string, name: string): string {
  try {
    return environmentOf(Number(pid), name);
  } catch {
    // It ended while it was looked at.
    return "";
  }
}

/** The processes whose command line contains the text. */
export async function processesOf(sandbox: string, member: string, text: string): Promise<ProcessEntry[]> {
  const found = await listSlot(slotOf(sandbox, member));
  return found.filter(({ pid }) => commandLine(pid).includes(text));
}

/** Ends the CLI's process hard, as the kernel's memory killer would: it and nothing else of the slot. */
export async function killCli(sandbox: string, member: string, text: string): Promise<void> {
  const found = await processesOf(sandbox, member, text);
  if (found.length !== 1) throw new Error(`${found.length} processes have ${text} in their command line`);
  for (const { pid } of found) process.kill(pid, "SIGKILL");
}

/** The events that the bridge has journaled and still keeps. */
export function eventsOf(directory: string): ControlEvent[] {
  const path = `${directory}/state/journal`;
  if (!existsSync(path)) return [];
  const { records } = readRecords(readFileSync(path));
  return records.flatMap((record) => (record.t === "event" ? [record.entry.event] : []));
}

/** How many exits the bridge has seen so far. */
export function exitsOf(directory: string, member: string): number {
  return eventsOf(directory).filter(
    (event) => event.type === "member.process" && event.member === member && event.state === "exited",
  ).length;
}

/** Waits until the bridge has seen one more: a submission in between may still find the dead process resident. */
export async function oneMoreExit(directory: string, member: string, before: number): Promise<void> {
  await until("one more exit in the journal", () => exitsOf(directory, member) > before, 10_000);
}

export async function slotIsEmpty(sandbox: string, member: string): Promise<void> {
  await until("an empty slot", async () => (await listSlot(slotOf(sandbox, member))).length === 0, 10_000);
}

/** A process's own environment, as it was started with. */
export function environmentOf(pid: number, name: string): string {
  const line = readFileSync(`/proc/${pid}/environ`, "utf8")
    .split("\0")
    .find((each) => each.startsWith(`${name}=`));
  return line?.slice(name.length + 1) ?? "";
}

/** The process of the sandbox's bridge. */
export function bridgeOf(directory: string): number {
  const { pid } = JSON.parse(readFileSync(`${directory}/process.json`, "utf8")) as { pid: number };
  return pid;
}

/** The TCP port on which the process listens. */
export function listeningPort(pid: number): number {
  const [first] = listening(pid);
  if (first === undefined) throw new Error(`process ${pid} listens on no port`);
  return Number.parseInt(first.split(":")[1] ?? "", 16);
}

/** The addresses on which it listens, as the kernel writes them. */
export function listeningAddresses(pid: number): string[] {
  return listening(pid).map((local) => local.split(":")[0] ?? "");
}

/** The addresses that it speaks to right now, by TCP or UDP. One that ends while it is looked at speaks to none. */
export function remoteAddresses(pid: number): string[] {
  return sockets(pid, ["tcp", "tcp6", "udp", "udp6"]).flatMap(({ remote }) => {
    const [address = "", port] = remote.split(":");
    return port === "0000" ? [] : [readable(address)];
  });
}

/** As people write it; an IPv6 address stays as the kernel writes it, unless it is an IPv4 one in disguise. */
function readable(hex: string): string {
  const mapped = "0000000000000000FFFF0000";
  const four = hex.startsWith(mapped) ? hex.slice(mapped.length) : hex;
  return four.length === 8 ? [...Buffer.from(four, "hex").reverse()].join(".") : four;
}

function listening(pid: number): string[] {
  return sockets(pid, ["tcp", "tcp6"]).flatMap(({ local, state }) => (state === "0A" ? [local] : []));
}

function sockets(
  pid: number,
  tables: readonly string[],
): Array<{ local: string; remote: string; state: string }> {
  try {
    const inodes = new Set(
      readdirSync(`/proc/${pid}/fd`).map(
        (fd) => /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1],
      ),
    );
    const rows = tables.flatMap((table) =>
      readFileSync(`/proc/${pid}/net/${table}`, "utf8").trim().split("\n").slice(1),
    );
    return rows.flatMap((row) => {
      const [, local = "", remote = "", state = "", , , , , , inode] = row.trim().split(/\s+/);
      return inodes.has(inode) ? [{ local, remote, state }] : [];
    });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH" || code === "EINVAL") return [];
    throw error;
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return "";
    throw error;
  }
}
