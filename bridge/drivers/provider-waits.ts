/**
 * The limit on waiting for the provider: from a session's first wait to its next progress. Neither heartbeats nor further
 * waits extend it (public case P19).
 */
import { type Clock, watchSilence } from "../../protocol/clock.ts";

export interface ProviderWaits {
  /** The session waits for its provider. */
  expect(session: string, reason: string): void;
  /** It made progress. */
  forget(session: string): void;
  forgetAll(): void;
}

export function createProviderWaits(
  clock: Clock,
  limitMs: number,
  onLate: (reason: string) => void,
): ProviderWaits {
  const waits = new Map<string, () => void>();
  function forget(session: string): void {
    waits.get(session)?.();
    waits.delete(session);
  }
  return {
    expect(session, reason) {
      if (!waits.has(session)) waits.set(session, watchSilence(clock, limitMs, () => onLate(reason)).stop);
    },
    forget,
    forgetAll() {
      for (const session of [...waits.keys()]) forget(session);
    },
  };
}
