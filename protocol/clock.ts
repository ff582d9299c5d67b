/**
 * Time as an argument (house rule 6), and the one way in which silence is judged.
 * Pure: the host's timers are passed in, so tests advance a clock of their own.
 */

/** What a shell may know of time. */
export interface Clock {
  /** Monotonic milliseconds; only differences mean something. */
  monotonicMs(): number;
  /** Wall clock, epoch milliseconds; for records, never for limits. */
  nowAt(): number;
  /** Calls `run` once after `ms`; the result cancels it. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` after the event loop has polled once more; the result cancels it. */
  afterPoll(run: () => void): () => void;
}

/** Watches for silence: `onSilent` runs once when `touch` was not called for `limitMs`. */
export interface SilenceWatch {
  touch(): void;
  stop(): void;
}

/**
 * A watch whose verdict comes only after one more poll: after a freeze of the process the timer fires before the
 * bytes that were waiting are read (measured: 3 s of SIGSTOP), and a live peer must not be called dead for it.
 */
export function watchSilence(
  clock: Clock,
  limitMs: number,
  onSilent: (silentMs: number) => void,
): SilenceWatch {
  let lastMs = clock.monotonicMs();
  let cancel = clock.after(limitMs, judge);
  let isStopped = false;

  function judge(): void {
    cancel = clock.afterPoll(() => {
      if (isStopped) return;
      const silentMs = clock.monotonicMs() - lastMs;
      if (silentMs >= limitMs) {
        isStopped = true;
        onSilent(silentMs);
        return;
      }
      cancel = clock.after(limitMs - silentMs, judge);
    });
  }

  return {
    touch() {
      lastMs = clock.monotonicMs();
    },
    stop() {
      isStopped = true;
      cancel();
    },
  };
}

/** The parts of a host that {@link hostClock} needs; Node's globals fit. */
export interface TimerHost<Timer, Immediate> {
  performance: { now(): number };
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer): void;
  setImmediate(run: () => void): Immediate;
  clearImmediate(immediate: Immediate): void;
}

/** The longest wait of one host timer; Node runs a longer one at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The real clock, made from the host's timers. */
export function hostClock<Timer, Immediate>(host: TimerHost<Timer, Immediate>): Clock {
  return {
    monotonicMs: () => host.performance.now(),
    nowAt: () => Date.now(),
    after(ms, run) {
      let timer = arm(ms);
      return () => host.clearTimeout(timer);

      function arm(leftMs: number): Timer {
        if (leftMs <= LONGEST_TIMER_MS) return host.setTimeout(run, leftMs);
        return host.setTimeout(() => {
          timer = arm(leftMs - LONGEST_TIMER_MS);
        }, LONGEST_TIMER_MS);
      }
    },
    afterPoll(run) {
      const immediate = host.setImmediate(run);
      return () => host.clearImmediate(immediate);
    },
  };
}
