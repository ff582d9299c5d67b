/** The native processes of a member in a process sandbox, as the kernel lists them. */
import { readFileSync } from "node:fs";
import { listSlot, type ProcessEntry, type SlotMark } from "../../../bridge/census.ts";
import { SLOT_VARIABLE } from "../../../bridge/slots.ts";
import { until } from "../../support/until.ts";

export function slotOf(sandbox: string, member: string): SlotMark {
  return { kind: "environment", variable: SLOT_VARIABLE, value: `${sandbox}/${member}` };
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

export async function slotIsEmpty(sandbox: string, member: string): Promise<void> {
  await until("an empty slot", async () => (await listSlot(slotOf(sandbox, member))).length === 0, 10_000);
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
