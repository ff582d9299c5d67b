import { performance } from "node:perf_hooks";
import fc from "fast-check";
import { expect, test } from "vitest";
import { hostClock, type TimerHost, watchSilence } from "../../protocol/clock.ts";
import { FakeClock } from "../support/fake-clock.ts";

/** A watch over a manual clock, and what it said. */
function watched(limitMs: number) {
  const clock = new FakeClock();
  const verdicts: number[] = [];
  const watch = watchSilence(clock, limitMs, (silentMs) => verdicts.push(silentMs));
  return { clock, watch, verdicts };
}

test("silence is said once, when the limit is reached and not before", () => {
  const { clock, verdicts } = watched(1000);
  clock.advance(999);
  expect(verdicts).toEqual([]);
  clock.advance(1);
  expect(verdicts).toEqual([1000]);
  clock.advance(10_000);
  expect(verdicts).toEqual([1000]);
  expect(clock.pending).toBe(0);
});

test("each touch starts the limit anew, however often", () => {
  const { clock, watch, verdicts } = watched(1000);
  for (let n = 0; n < 20; n += 1) {
    clock.advance(900);
    watch.touch();
  }
  expect(verdicts).toEqual([]);
  clock.advance(999);
  expect(verdicts).toEqual([]);
  clock.advance(1);
  expect(verdicts).toEqual([1000]);
});

test("a stopped watch says nothing and leaves no timer", () => {
  const { clock, watch, verdicts } = watched(1000);
  clock.advance(500);
  watch.stop();
  expect(clock.pending).toBe(0);
  clock.advance(5000);
  expect(verdicts).toEqual([]);
});

test("a watch that is stopped in the very poll before its verdict says nothing", () => {
  const { clock, watch, verdicts } = watched(1000);
  clock.freeze(1000, () => watch.stop());
  expect(verdicts).toEqual([]);
  expect(clock.pending).toBe(0);
});

test("after a freeze, bytes that were waiting are read before anyone is called silent", () => {
  const { clock, watch, verdicts } = watched(1000);
  clock.freeze(3000, () => watch.touch());
  expect(verdicts).toEqual([]);
  clock.advance(999);
  expect(verdicts).toEqual([]);
  clock.advance(1);
  expect(verdicts).toEqual([1000]);
});

test("after a freeze with nothing waiting, the silence is said with its true length", () => {
  const { clock, verdicts } = watched(1000);
  clock.freeze(3000, () => undefined);
  expect(verdicts).toEqual([3000]);
});

test("over any touches, the verdict comes exactly one limit after the last that was in time", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 1500 }), { maxLength: 20 }), (gapsMs) => {
      const { clock, watch, verdicts } = watched(1000);
      let isSilent = false;
      for (const gapMs of gapsMs) {
        clock.advance(gapMs);
        isSilent ||= gapMs >= 1000;
        watch.touch();
      }
      clock.advance(999);
      expect(verdicts).toHaveLength(isSilent ? 1 : 0);
      clock.advance(1);
      expect(verdicts).toEqual([1000]);
    }),
  );
});

/** A host of timers that records what it is asked for; its timers fire when the test says so. */
class FakeHost implements TimerHost<number, number> {
  readonly performance = { now: () => 42.5 };
  readonly timers = new Map<number, { run: () => void; ms: number }>();
  readonly immediates = new Map<number, () => void>();
  #nextId = 1;

  setTimeout = (run: () => void, ms: number): number => {
    this.timers.set(this.#nextId, { run, ms });
    return this.#nextId++;
  };
  clearTimeout = (timer: number): void => {
    this.timers.delete(timer);
  };
  setImmediate = (run: () => void): number => {
    this.immediates.set(this.#nextId, run);
    return this.#nextId++;
  };
  clearImmediate = (immediate: number): void => {
    this.immediates.delete(immediate);
  };

  /** Fires the only timer; says how long it was for. */
  fire(): number {
    const [[id, { run, ms }] = [0, { run: () => undefined, ms: 0 }]] = this.timers;
    this.timers.delete(id);
    run();
    return ms;
  }
}

test("the host's clock is monotonic for limits and epoch for records", () => {
  const clock = hostClock(new FakeHost());
  expect(clock.monotonicMs()).toBe(42.5);
  expect(Math.abs(clock.nowAt() - Date.now())).toBeLessThan(1000);
});

test("the host's timers run once and can be cancelled", () => {
  const host = new FakeHost();
  const clock = hostClock(host);
  let runs = 0;
  const cancelTimer = clock.after(250, () => runs++);
  const cancelPoll = clock.afterPoll(() => runs++);
  expect([...host.timers.values()].map(({ ms }) => ms)).toEqual([250]);
  cancelTimer();
  cancelPoll();
  expect(host.timers.size + host.immediates.size).toBe(0);
  clock.after(250, () => runs++);
  expect(host.fire()).toBe(250);
  expect(runs).toBe(1);
  expect(host.timers.size).toBe(0);
});

test("a wait longer than a host's timer can hold is waited in pieces, not cut to nothing", () => {
  const longestMs = 2 ** 31 - 1;
  const host = new FakeHost();
  const clock = hostClock(host);
  let runs = 0;
  clock.after(2 * longestMs + 5, () => runs++);
  expect(host.fire()).toBe(longestMs);
  expect(host.fire()).toBe(longestMs);
  expect(runs).toBe(0);
  expect(host.fire()).toBe(5);
  expect(runs).toBe(1);
  expect(host.timers.size).toBe(0);
});

test("a long wait can be cancelled in any of its pieces", () => {
  const host = new FakeHost();
  const cancel = hostClock(host).after(2 ** 32, () => expect.unreachable());
  host.fire();
  cancel();
  expect(host.timers.size).toBe(0);
});

test("on the real host, what waits for a poll runs after the timers that were due", async () => {
  const clock = hostClock({ performance, setTimeout, clearTimeout, setImmediate, clearImmediate });
  const order: string[] = [];
  await new Promise<void>((resolve) => {
    clock.after(1, () => {
      clock.afterPoll(() => {
        order.push("poll");
        resolve();
      });
      order.push("timer");
    });
  });
  expect(order).toEqual(["timer", "poll"]);
});
