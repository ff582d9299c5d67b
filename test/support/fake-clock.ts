// A clock that moves by hand, for everything that takes a Clock. Real time plays no part in it.
import type { Clock } from "../../protocol/clock.ts";

interface Timer {
  dueMs: number;
  run(): void;
}

export class FakeClock implements Clock {
  #nowMs = 0;
  #startAt: number;
  readonly #timers = new Set<Timer>();
  readonly #polls = new Set<() => void>();

  constructor(startAt = 1_700_000_000_000) {
    this.#startAt = startAt;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  nowAt(): number {
    return this.#startAt + this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { dueMs: this.#nowMs + Math.max(0, ms), run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  afterPoll(run: () => void): () => void {
    const once = () => run();
    this.#polls.add(once);
    return () => this.#polls.delete(once);
  }

  /** Somebody sets the wall clock; no time passes. */
  setWallClock(byMs: number): void {
    this.#startAt += byMs;
  }

  /** Timers and polls that still wait: 0 when everything that was started was also cancelled or has run. */
  get pending(): number {
    return this.#timers.size + this.#polls.size;
  }

  /** Moves time on. At each moment that has timers, these run in their order, then what waits for the next poll. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (let next = this.#next(untilMs); next !== null; next = this.#next(untilMs)) this.#turn(next);
    this.#turn(untilMs);
  }

  /** Like {@link advance}, and lets promises and real input continue after each of those moments. */
  async elapse(ms: number): Promise<void> {
    await settled();
    const untilMs = this.#nowMs + ms;
    for (let next = this.#next(untilMs); next !== null; next = this.#next(untilMs)) {
      this.#turn(next);
      await settled();
    }
    this.#turn(untilMs);
    await settled();
  }

  /**
   * The process stood still for `ms`: all timers that came due meanwhile fire late and at once, then the loop polls
   * and reads what was waiting (`poll`), and only then comes what waits for that poll.
   */
  freeze(ms: number, poll: () => void): void {
    this.#nowMs += ms;
    this.#fire();
    poll();
    this.#afterPoll();
  }

  #next(untilMs: number): number | null {
    const dueMs = Math.min(...[...this.#timers].map((timer) => timer.dueMs));
    return dueMs <= untilMs ? Math.max(dueMs, this.#nowMs) : null;
  }

  #turn(atMs: number): void {
    this.#nowMs = atMs;
    this.#fire();
    this.#afterPoll();
  }

  /** Runs the timers that are due now; those that they add wait for the next turn of the loop. */
  #fire(): void {
    const due = [...this.#timers].filter((timer) => timer.dueMs <= this.#nowMs);
    for (const timer of due.sort((a, b) => a.dueMs - b.dueMs)) {
      if (this.#timers.delete(timer)) timer.run();
    }
  }

  #afterPoll(): void {
    for (const run of [...this.#polls]) if (this.#polls.delete(run)) run();
  }
}

/** After one turn of the real event loop: promises have continued, and input that was there has been read. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
