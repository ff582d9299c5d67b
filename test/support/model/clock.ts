// The time that the loopback model lives by, so that a test can bring its own. Decides nothing.
import { setTimeout as sleep } from "node:timers/promises";

export interface Clock {
  now(): number;
  /** Rejects when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const realClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
};
