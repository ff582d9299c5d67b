// A CLI on JSON lines that does what its one argument says, step by step, and then stays. A stand-in for faults only:
// it blocks on every read and write, so what it has done is done.
import { spawn } from "node:child_process";
import { closeSync, readSync, writeSync } from "node:fs";

/** One step; a program is a list of them. */
export type LineStep =
  /** Writes the text as it is. */
  | { out: string }
  /** Writes one legal message of `lineBytes` bytes without its line feed. */
  | { lineBytes: number }
  /** Writes `x` for ever. */
  | { endless: true }
  /** Waits for a line on stdin. */
  | { read: true }
  /** Answers each line on stdin with `{"type":"echo","line":…}`, until stdin ends. */
  | { echo: true }
  /** Starts a child that holds stdin, stdout and stderr open. */
  | { child: true }
  | { close: 0 | 1 }
  /** Ends after this time. */
  | { exit: number; afterMs?: number };

let pending = Buffer.alloc(0);

function write(text: string | Buffer): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

/** The next line of stdin, or null at its end. */
function readLine(): string | null {
  const chunk = Buffer.alloc(64 * 1024);
  for (let end = pending.indexOf("\n"); ; end = pending.indexOf("\n")) {
    if (end >= 0) {
      const line = pending.subarray(0, end).toString();
      pending = pending.subarray(end + 1);
      return line;
    }
    const count = readSync(0, chunk);
    if (count === 0) return null;
    pending = Buffer.concat([pending, chunk.subarray(0, count)]);
  }
}

function echo(): void {
  for (let line = readLine(); line !== null; line = readLine()) {
    write(`${JSON.stringify({ type: "echo", line })}\n`);
  }
}

async function play(step: LineStep): Promise<void> {
  if ("out" in step) write(step.out);
  else if ("lineBytes" in step) {
    const [head, tail] = ['{"type":"big","text":"', '"}'];
    const fill = step.lineBytes - head.length - tail.length;
    write(Buffer.concat([Buffer.from(head), Buffer.alloc(fill, "x"), Buffer.from(`${tail}\n`)]));
  } else if ("endless" in step) for (;;) write(Buffer.alloc(64 * 1024, "x"));
  else if ("read" in step) readLine();
  else if ("echo" in step) echo();
  else if ("child" in step) spawn("sleep", ["600"], { stdio: "inherit" });
  else if ("close" in step) closeSync(step.close);
  else {
    await new Promise((resolve) => setTimeout(resolve, step.afterMs ?? 0));
    process.exit(step.exit);
  }
}

for (const step of JSON.parse(process.argv[2] ?? "[]") as LineStep[]) await play(step);
setInterval(() => undefined, 60_000);
