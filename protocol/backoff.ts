/** How long to wait before the next try to connect. Pure: chance and time are arguments. */

export interface Backoff {
  /** Tries since the last stable connection. */
  tries: number;
}

export interface BackoffLimits {
  firstMs: number;
  longestMs: number;
  /** A connection that lasted this long starts the next wait from `firstMs`. */
  stableMs: number;
}

/**
 * The next wait, doubled for each try and spread by jitter over its upper half.
 * @param lastedMs how long the connection that just ended had been open; 0 when none was made
 * @param chance in [0, 1)
 */
export function nextWait(
  state: Backoff,
  limits: BackoffLimits,
  lastedMs: number,
  chance: number,
): { state: Backoff; waitMs: number } {
  const tries = lastedMs >= limits.stableMs ? 0 : state.tries;
  const ceilingMs = Math.min(limits.longestMs, limits.firstMs * 2 ** Math.min(tries, 20));
  return { state: { tries: tries + 1 }, waitMs: ceilingMs / 2 + (ceilingMs / 2) * chance };
}
