/**
 * What codex does outside any turn of ours: turns that it started by itself, and subagents that work on behind their
 * turn. Told once at its start and once at its end. Pure.
 */

/** Threads followed at once. Beyond: further ones are not told; so many are noticed by the first. */
const THREADS = 64;

export interface OtherWork {
  began(thread: string, turn: string, detail: string): void;
  ended(thread: string, turn: string): void;
  /** The turn that runs on this thread, or null. */
  turnOf(thread: string): string | null;
}

export function watchOtherWork(
  report: (thread: string, state: "started" | "ended", detail: string) => void,
): OtherWork {
  const working = new Map<string, string>();
  return {
    began(thread, turn, detail) {
      if (!working.has(thread)) {
        if (working.size >= THREADS) return;
        report(thread, "started", detail);
      }
      working.set(thread, turn);
    },
    ended(thread, turn) {
      if (working.get(thread) !== turn) return;
      working.delete(thread);
      report(thread, "ended", "turn/completed");
    },
    turnOf: (thread) => working.get(thread) ?? null,
  };
}
