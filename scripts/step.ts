// One named, timed, bounded step of a script: a command in a process group of its own, which is ended as a whole.
import { spawn } from "node:child_process";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("..", import.meta.url));

const politeMs = 10_000; // vitest ends its workers and runs teardown in this time

/** `onLine` gets each line that the command prints on stdout, beside its being shown. */
export type Step = {
  name: string;
  command: string[];
  env?: Record<string, string>;
  onLine?: (line: string) => void;
};
export type StepEnd = { ok: true } | { ok: false; reason: string };

/** Runs the step with its output shown; ends it, first politely, when the signal aborts. Never throws. */
export async function runStep(step: Step, signal: AbortSignal): Promise<StepEnd> {
  return await timed(step.name, async () => {
    if (signal.aborted) return { ok: false, reason: String(signal.reason) };
    return await runCommand(step, signal);
  });
}

/** Shows the name and how long it took of anything that ends well or with a reason. */
export async function timed(name: string, act: () => Promise<StepEnd>): Promise<StepEnd> {
  const began = performance.now();
  say(`── ${name}`);
  const end = await act().catch((error: unknown): StepEnd => ({ ok: false, reason: String(error) }));
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  say(end.ok ? `── ${name}: ok, ${seconds} s` : `── ${name}: FAILED after ${seconds} s: ${end.reason}`);
  return end;
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function runCommand({ command, env, onLine }: Step, signal: AbortSignal): Promise<StepEnd> {
  const [tool = "", ...args] = command;
  const { promise, resolve } = Promise.withResolvers<StepEnd>();
  const path = [join(root, "node_modules", ".bin"), process.env.PATH ?? ""].join(delimiter);
  const child = spawn(tool, args, {
    cwd: root,
    detached: true,
    stdio: ["ignore", onLine ? "pipe" : "inherit", "inherit"],
    env: { ...process.env, PATH: path, ...env },
  });
  if (child.stdout)
    createInterface(child.stdout).on("line", (line) => {
      say(line);
      onLine?.(line);
    });
  const kill = (name: NodeJS.Signals) => {
    if (child.pid !== undefined) killGroup(child.pid, name);
  };
  let force: NodeJS.Timeout | undefined;
  const onAbort = () => {
    kill("SIGTERM");
    force = setTimeout(() => kill("SIGKILL"), politeMs);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  child.on("error", (error) => resolve({ ok: false, reason: error.message }));
  child.on("close", (code, killedBy) => {
    if (signal.aborted) resolve({ ok: false, reason: String(signal.reason) });
    else if (code === 0) resolve({ ok: true });
    else resolve({ ok: false, reason: killedBy ? `ended by ${killedBy}` : `exit code ${code}` });
  });
  const end = await promise;
  signal.removeEventListener("abort", onAbort);
  clearTimeout(force);
  kill("SIGKILL"); // whatever of the group outlived its leader
  return end;
}

function killGroup(leader: number, name: NodeJS.Signals): void {
  try {
    process.kill(-leader, name);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
