/**
 * Our lines to a CLI's stdin, in the order in which they are sent. A line is sent when the pipe has all of it. One that
 * can't be sent ends the input: what would come behind half a line could be taken for its rest.
 *
 *   send ─▶ in the pipe
 *       ├─▶ not taken within its limit: stdin is closed with the line cut, so that it can't run later; CLI_REFUSED
 *       └─▶ stdin fails: the CLI's end is waited for, and told by whoever sees it; else CLI_EXITED after a bound
 */
import type { Writable } from "node:stream";
import { type Clock, watchSilence } from "../../../protocol/clock.ts";
import { HoldfastError } from "../../../protocol/errors.ts";

/** Bytes that wait for the pipe. Beyond: OVERLOADED, nothing of the line is sent. */
export const INPUT_BYTES = 128 * 1024 * 1024;
/** How long the process may live on behind a failure of its stdin before that is the cause. */
const EXIT_SEEN_MS = 250;

export interface LineInput {
  /**
   * Resolves when the line is in the pipe. Rejects with CLI_EXITED, with OVERLOADED or INTERNAL when nothing of it was
   * sent, with CLI_REFUSED when it was not taken within `limitMs`: then nobody knows how much of it has been read.
   */
  send(message: unknown, limitMs: number): Promise<void>;
  /** No more lines; what was sent before is still written. */
  end(): void;
  /** All that is on its way ends with this, and nothing is taken any more. */
  fail(error: HoldfastError): void;
}

export function createLineInput(options: {
  stdin: Writable;
  clock: Clock;
  /** The process has ended: {@link LineInput.fail} comes, and is the cause. */
  hasExited(): boolean;
  /** The input has ended by a fault of its own. */
  onFailed(reason: string): void;
}): LineInput {
  const { stdin, clock } = options;
  const waiting = new Set<(error: HoldfastError) => void>();
  let failure: HoldfastError | null = null;
  let stopWaitingForExit: (() => void) | null = null;
  let hasEnded = false;

  function fail(error: HoldfastError): void {
    if (failure !== null) return;
    failure = error;
    stopWaitingForExit?.();
    // Whatever is still held for the pipe is let go, and a line that is half in it stays cut.
    stdin.destroy();
    for (const reject of [...waiting]) reject(error);
  }

  function failBy(error: HoldfastError): void {
    if (failure !== null || options.hasExited()) return;
    // First the cause, then what follows from it for those who wait.
    options.onFailed(error.message);
    fail(error);
  }

  /** An early exit is first seen as a write that fails: the exit is the cause, and says more. */
  function onWriteFailed({ message }: Error): void {
    if (failure !== null || stopWaitingForExit !== null) return;
    stopWaitingForExit = watchSilence(clock, EXIT_SEEN_MS, () =>
      failBy(new HoldfastError("CLI_EXITED", `the CLI's stdin failed: ${message}`)),
    ).stop;
  }

  return {
    async send(message, limitMs) {
      const line = Buffer.from(`${textOf(message)}\n`);
      if (failure !== null) throw failure;
      if (hasEnded) throw new HoldfastError("CLI_EXITED", "the CLI takes no more input");
      if (stdin.writableLength + line.length > INPUT_BYTES) {
        throw new HoldfastError("OVERLOADED", `more than ${INPUT_BYTES} bytes wait for the CLI`);
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      waiting.add(reject);
      if (stdin.writable) {
        stdin.write(line, (error) => {
          if (error == null) resolve();
          else onWriteFailed(error);
        });
      } else onWriteFailed(new Error("it is closed"));
      const late = watchSilence(clock, limitMs, () =>
        failBy(new HoldfastError("CLI_REFUSED", `the CLI took no input within ${limitMs} ms`)),
      );
      try {
        await promise;
      } finally {
        waiting.delete(reject);
        late.stop();
      }
    },
    end() {
      hasEnded = true;
      stdin.end();
    },
    fail,
  };
}

/** What can't be written as JSON (nested too deep, as a hostile CLI's own input may be) is an error like any other. */
function textOf(message: unknown): string {
  try {
    return JSON.stringify(message);
  } catch (cause) {
    throw new HoldfastError("INTERNAL", "a message to the CLI can't be written as JSON", { cause });
  }
}
