// Decides what a daemon's pid file is worth. dockerd refuses to start when the file names any live process, even one
// of another kind that reused the number; and a dockerd killed just now can still show as a zombie. Ends nothing.

import { readFileSync, rmSync } from "node:fs";

/** What `/proc/PID/stat` says of a process: its name and its state letter (`Z` is a zombie, `X` is dead). */
export interface ProcessFact {
  name: string;
  state: string;
}

/** The process of a `/proc/PID/stat` line; the name may hold spaces and brackets. Undefined when it is no such line. */
export function parseProcessStat(line: string): ProcessFact | undefined {
  const open = line.indexOf("(");
  const close = line.lastIndexOf(")");
  const state = line.slice(close + 2, close + 3);
  if (open < 0 || close < open || state === "") return undefined;
  return { name: line.slice(open + 1, close), state };
}

/** `live`: the file's process is the daemon and runs; `absent`: no file; `stale`: the file may be removed. */
export function judgePidFile(
  content: string | undefined,
  daemon: string,
  lookUp: (pid: number) => ProcessFact | undefined,
): "absent" | "stale" | "live" {
  if (content === undefined) return "absent";
  const text = content.trim();
  if (!/^[1-9][0-9]{0,9}$/.test(text)) return "stale";
  const fact = lookUp(Number(text));
  if (fact === undefined || fact.name !== daemon) return "stale";
  return fact.state === "Z" || fact.state === "X" ? "stale" : "live";
}

/** Reads the file and removes it when it is stale. Returns the pid of the live daemon, if there is one. */
export function settlePidFile(path: string, daemon: string): number | undefined {
  const content = readOrUndefined(path);
  const verdict = judgePidFile(content, daemon, processOf);
  if (verdict === "stale") rmSync(path, { force: true });
  return verdict === "live" ? Number(content?.trim()) : undefined;
}

/** What the kernel says of a pid now; undefined when there is no such process. */
export function processOf(pid: number): ProcessFact | undefined {
  const line = readOrUndefined(`/proc/${pid}/stat`);
  return line === undefined ? undefined : parseProcessStat(line);
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ESRCH") return undefined;
    throw cause;
  }
}
