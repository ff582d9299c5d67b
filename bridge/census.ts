/**
 * Which processes belong to a slot, read from /proc. By user where the slot has one of its own; without isolation by a
 * mark in the environment and by descent. It lists and kills; it does not decide when.
 */
import { readdir, readFile } from "node:fs/promises";
import type { Clock } from "../protocol/clock.ts";

/** A process, known by number *and* start time, since numbers are reused. */
export interface ProcessEntry {
  pid: number;
  parent: number;
  /** Clock ticks since boot. */
  startTicks: string;
  state: string;
  command: string;
}

/** How a slot's processes are recognised. */
export type SlotMark =
  | { kind: "uid"; uid: number }
  | { kind: "environment"; variable: string; value: string };

/** Every process of the slot that is not a zombie. */
export async function listSlot(mark: SlotMark): Promise<ProcessEntry[]> {
  const entries: ProcessEntry[] = [];
  const ours = new Set<number>();
  for (const name of await readdir("/proc")) {
    const pid = Number(name);
    if (!/^\d+$/.test(name) || pid === process.pid) continue;
    const entry = await readEntry(pid);
    if (entry === null) continue;
    entries.push(entry);
    if (mark.kind === "uid" ? await hasUid(pid, mark.uid) : await hasVariable(pid, mark)) ours.add(pid);
  }
  if (mark.kind === "environment") addDescendants(entries, ours);
  return entries.filter(({ pid, state }) => ours.has(pid) && isRunning(state));
}

/** Resident memory of every process of the slot together, bytes; pages that they share count in each. */
export async function residentBytes(mark: SlotMark): Promise<number> {
  const statuses = await Promise.all((await listSlot(mark)).map(({ pid }) => readProc(pid, "status")));
  return statuses.reduce((sum, status) => {
    const kB = /^VmRSS:\s+(\d+) kB$/m.exec(status ?? "")?.[1];
    return sum + Number(kB ?? 0) * 1024;
  }, 0);
}

/** A child that was given another environment is still its parent's child. */
function addDescendants(entries: readonly ProcessEntry[], ours: Set<number>): void {
  for (let before = -1; before < ours.size; ) {
    before = ours.size;
    for (const { pid, parent } of entries) if (ours.has(parent)) ours.add(pid);
  }
}

function isRunning(state: string): boolean {
  return state !== "Z" && state !== "X";
}

/** A process's own line, or null when it is gone. */
export async function readEntry(pid: number): Promise<ProcessEntry | null> {
  const stat = await readProc(pid, "stat");
  if (stat === null) return null;
  // The name in parentheses may hold blanks and parentheses itself: split behind the last one.
  const close = stat.lastIndexOf(")");
  const fields = stat.slice(close + 2).split(" ");
  return {
    pid,
    parent: Number(fields[1]),
    startTicks: fields[19] ?? "",
    state: fields[0] ?? "",
    command: stat.slice(stat.indexOf("(") + 1, close),
  };
}

/**
 * Ends every process of the slot and checks that none is left: rounds of SIGKILL, since a process may fork between the
 * look and the kill (183 self-forking processes took 8 rounds). Returns what is still there at the limit.
 * @param known processes seen in the slot before: without a user an orphan without the mark is nobody's any more
 */
export async function reapSlot(
  mark: SlotMark,
  clock: Clock,
  limitMs: number,
  known: readonly ProcessEntry[] = [],
): Promise<ProcessEntry[]> {
  const deadlineMs = clock.monotonicMs() + limitMs;
  const look = async () => {
    const found = await listSlot(mark);
    const lost = await stillThere(known);
    return [...found, ...lost.filter(({ pid }) => !found.some((entry) => entry.pid === pid))];
  };
  for (;;) {
    const left = await look();
    if (left.length === 0) return [];
    for (const entry of left) await killEntry(entry);
    if (clock.monotonicMs() >= deadlineMs) return look();
    await new Promise<void>((resolve) => clock.after(10, resolve));
  }
}

async function stillThere(known: readonly ProcessEntry[]): Promise<ProcessEntry[]> {
  const now = await Promise.all(known.map(({ pid }) => readEntry(pid)));
  return known.filter(({ startTicks }, at) => {
    const entry = now[at];
    return entry?.startTicks === startTicks && isRunning(entry.state);
  });
}

/** Kills exactly this process: the start time is compared right before, so a reused number is spared. */
export async function killEntry(entry: ProcessEntry): Promise<void> {
  const now = await readEntry(entry.pid);
  if (now?.startTicks !== entry.startTicks) return;
  signalIfThere(entry.pid, "SIGKILL");
}

/**
 * Sends a signal; false when nobody took it: gone, or (without the KILL capability) not ours to end, which the next look
 * at the slot shows. A negative number means the process group.
 */
export function signalIfThere(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH" || code === "EPERM") return false;
    throw error;
  }
}

async function hasUid(pid: number, uid: number): Promise<boolean> {
  const status = await readProc(pid, "status");
  // Real, effective, saved and file system user: a process is the slot's if any of them is.
  const uids = status?.match(/^Uid:\s+(.*)$/m)?.[1]?.split(/\s+/) ?? [];
  return uids.includes(String(uid));
}

async function hasVariable(pid: number, mark: { variable: string; value: string }): Promise<boolean> {
  const environment = await readProc(pid, "environ");
  return environment?.split("\0").includes(`${mark.variable}=${mark.value}`) ?? false;
}

/** Null when the process is gone or belongs to somebody whose files we may not read. */
async function readProc(pid: number, file: string): Promise<string | null> {
  try {
    return await readFile(`/proc/${pid}/${file}`, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH" || code === "EACCES" || code === "EPERM") return null;
    throw error;
  }
}
