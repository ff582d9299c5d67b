/**
 * How long this controller may still drive, by its own monotonic clock: from the moment before a renewal was sent, for as
 * long as the store grants, less a margin. Two machines' clocks are never compared: the store's end of the lease is by its
 * clock, and lies behind ours since we began to count earlier.
 *
 *   before the request │ request ─ answer │ ……… held ……… │ margin │ the store lets it go
 */
import type { Clock } from "../../protocol/clock.ts";

/** Granted by each renewal, ms. */
export const LEASE_MS = 15_000;
/** Between two renewals, ms: two may fail before it is over. */
export const RENEW_MS = 4000;
/** Not used of what was granted, ms: what was begun ends in it. */
export const MARGIN_MS = 2000;

export interface LeaseClock {
  /** Call before the request; its result is called with the answer's arrival. */
  renewing(): () => void;
  isHeld(): boolean;
  /** How long it is still held, ms; 0 when it is not. */
  leftMs(): number;
}

/** Not held until the first renewal has come back. */
export function createLeaseClock(clock: Pick<Clock, "monotonicMs">): LeaseClock {
  let endsAtMs = Number.NEGATIVE_INFINITY;
  const leftMs = () => Math.max(0, endsAtMs - clock.monotonicMs());
  return {
    renewing() {
      const beganAtMs = clock.monotonicMs();
      // One that overtook another must not shorten what that one was granted.
      return () => {
        endsAtMs = Math.max(endsAtMs, beganAtMs + LEASE_MS - MARGIN_MS);
      };
    },
    isHeld: () => leftMs() > 0,
    leftMs,
  };
}
