/** Ctrl-C and the other polite signals, as a callback. */

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** A terminal signals the whole group and a wrapper (npm, tsx) passes its own on: one press then arrives twice. */
const SAME_PRESS_MS = 300;

/** Calls `act` at each press. Returns what ends the watching. */
export function watchInterrupts(
  act: () => void,
  { source = process as NodeJS.EventEmitter, nowMs = () => performance.now() } = {},
): () => void {
  let lastMs = Number.NEGATIVE_INFINITY;
  const onSignal = () => {
    const isEcho = nowMs() - lastMs < SAME_PRESS_MS;
    lastMs = nowMs();
    if (!isEcho) act();
  };
  for (const signal of SIGNALS) source.on(signal, onSignal);
  return () => {
    for (const signal of SIGNALS) source.off(signal, onSignal);
  };
}

/** The work's result, or null as soon as the signal aborts; the work itself goes on. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | null> {
  const aborted = Promise.withResolvers<null>();
  const onAbort = () => aborted.resolve(null);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort);
  try {
    // The signal first: where both are there already, it wins.
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
