// The processes of one test run, found by the mark HOLDFAST_TEST_RUN=RUN in their environment; children inherit it
// unless they are given another. Linux only: elsewhere none is found.
import { readdirSync, readFileSync } from "node:fs";

export type Marked = { pid: number; command: string };

export function markedProcesses(run: string): Marked[] {
  const mark = `HOLDFAST_TEST_RUN=${run}\0`;
  return pids().flatMap((pid) => {
    if (pid === process.pid || !readProc(pid, "environ").includes(mark)) return [];
    return [{ pid, command: readProc(pid, "cmdline").replaceAll("\0", " ").trim().slice(0, 200) }];
  });
}

/** Ends them hard: they are what nobody else ended. */
export function killMarked(marked: Marked[]): void {
  for (const { pid } of marked) {
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      if (!isOneOf(error, "ESRCH")) throw error;
    }
  }
}

function pids(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** "" for a process that is gone, or another user's. */
function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch (error) {
    if (isOneOf(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return "";
    throw error;
  }
}

function isOneOf(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
