// Runs one program to its end within a time limit and keeps the end of what it said. Starts no daemon, and
// nothing here goes through a shell.

import { spawn } from "node:child_process";

const MAX_TAIL_CHARS = 16_000;

export interface CommandEnd {
  isSuccess: boolean;
  /** The last 16,000 characters of both outputs. */
  tail: string;
}

export function runCommand(
  file: string,
  args: readonly string[],
  options: { timeoutMs: number; cwd?: string; env?: Record<string, string | undefined> },
): Promise<CommandEnd> {
  const { promise, resolve } = Promise.withResolvers<CommandEnd>();
  const child = spawn(file, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    timeout: options.timeoutMs,
    killSignal: "SIGKILL",
  });
  let tail = "";
  const keep = (chunk: Buffer): void => {
    tail = (tail + chunk.toString("utf8")).slice(-MAX_TAIL_CHARS);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  child.once("error", (cause) => resolve({ isSuccess: false, tail: cause.message }));
  child.once("close", (code, signal) => {
    if (signal !== null) tail += `\n(ended by ${signal}; the limit was ${options.timeoutMs} ms)`;
    resolve({ isSuccess: code === 0, tail });
  });
  return promise;
}
