/** A wait with a limit and an abort: whatever is awaited settles, once. */
import type { Clock } from "../protocol/clock.ts";
import { type ErrorCode, HoldfastError } from "../protocol/errors.ts";

/**
 * The promise's own result, or the given error after `limitMs`, or STOPPED when `signal` aborts first.
 * The work itself is told by the signal that it is handed; a late result of it is dropped.
 */
export async function limited<T>(
  options: { clock: Clock; limitMs: number; code: ErrorCode; what: string; signal?: AbortSignal | undefined },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const { clock, limitMs, signal } = options;
  const stopped = () => new HoldfastError("STOPPED", `${options.what}: cancelled`);
  if (signal?.aborted) throw stopped();
  let cancel: () => void = () => undefined;
  let onAbort: () => void = () => undefined;
  const ended = new Promise<never>((_, reject) => {
    // After a freeze the timer fires before the bytes that were waiting are read (law 13).
    cancel = clock.after(limitMs, () => {
      cancel = clock.afterPoll(() =>
        reject(new HoldfastError(options.code, `${options.what}: no result within ${limitMs} ms`)),
      );
    });
    onAbort = () => reject(stopped());
    signal?.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([work(controller.signal), ended]);
  } finally {
    cancel();
    signal?.removeEventListener("abort", onAbort);
    controller.abort();
  }
}
