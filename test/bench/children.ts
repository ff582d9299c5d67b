// Child processes of a bench: started, heard until they are ready, and ended with it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Scope } from "./scope.ts";

const READY_MS = 60_000;
const POLITE_MS = 3000;

export interface StartOptions {
  scope: Scope;
  command: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
  cwd?: string;
}

/** Starts it, with its stderr shown only when it ends before its first line. Resolves to that line of stdout. */
export async function startAndHear(options: StartOptions): Promise<{ child: ChildProcess; line: string }> {
  const child = start(options, ["pipe", "pipe", "pipe"]);
  let words = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-4000);
  });
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  const first = once(lines, "line", { signal: AbortSignal.timeout(READY_MS) });
  const early = once(child, "exit").then(([code]) => {
    throw new Error(`${options.command.join(" ")} ended with ${code} before it was ready: ${words}`);
  });
  early.catch(() => "it may end later as it likes");
  const [line] = (await Promise.race([first, early])) as [string];
  return { child, line };
}

/** Starts it with its output thrown away. */
export function startSilent(options: StartOptions): ChildProcess {
  return start(options, "ignore");
}

function start(options: StartOptions, stdio: "ignore" | Array<"pipe">): ChildProcess {
  const [file = "", ...args] = options.command;
  const child = spawn(file, args, {
    stdio,
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  child.on("error", () => "without a pid it is reported where it is waited for");
  options.scope.defer(() => endChild(child));
  return child;
}

export async function endChild(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const force = setTimeout(() => child.kill("SIGKILL"), POLITE_MS);
  await gone;
  clearTimeout(force);
}

export interface Memory {
  rssMb: number;
  /** In no other process: what it costs to have one more. */
  privateMb: number;
}

export function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const kb = (name: string) => Number(text.match(new RegExp(`^${name}:\\s+(\\d+) kB`, "m"))?.[1] ?? 0);
  return {
    rssMb: (kb("Rss") * 1024) / 1e6,
    privateMb: ((kb("Private_Clean") + kb("Private_Dirty")) * 1024) / 1e6,
  };
}

/** The most that the process ever had in memory. */
export function peakRssMb(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return (Number(text.match(/^VmHWM:\s+(\d+) kB/m)?.[1] ?? 0) * 1024) / 1e6;
}

/** The kernel counts in hundredths of a second. */
const TICK_MS = 10;

/** Time on a core that the process has had so far. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The bridge of a `process` sandbox, from the sandbox's own record. */
export function pidOfBridge(recordPath: string): number {
  return (JSON.parse(readFileSync(recordPath, "utf8")) as { pid: number }).pid;
}
