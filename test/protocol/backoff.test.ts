import fc from "fast-check";
import { expect, test } from "vitest";
import { type Backoff, nextWait } from "../../protocol/backoff.ts";

const LIMITS_OF_TEST = { firstMs: 50, longestMs: 5000, stableMs: 10_000 };
const FRESH: Backoff = { tries: 0 };

/** The waits of tries that all fail, at this chance. */
function waits(count: number, chance: number): number[] {
  const seen: number[] = [];
  let state = FRESH;
  for (let n = 0; n < count; n += 1) {
    const next = nextWait(state, LIMITS_OF_TEST, 0, chance);
    state = next.state;
    seen.push(next.waitMs);
  }
  return seen;
}

test("the wait doubles from the first to the longest, and stays there", () => {
  expect(waits(10, 0)).toEqual([25, 50, 100, 200, 400, 800, 1600, 2500, 2500, 2500]);
});

test("chance spreads the wait over the upper half, and never beyond the longest", () => {
  expect(waits(3, 0.5)).toEqual([37.5, 75, 150]);
  for (const waitMs of waits(40, 0.999_999)) expect(waitMs).toBeLessThanOrEqual(5000);
});

test("a connection that lasted starts the waits anew, and one that did not goes on", () => {
  const state: Backoff = { tries: 6 };
  expect(nextWait(state, LIMITS_OF_TEST, 10_000, 0)).toEqual({ state: { tries: 1 }, waitMs: 25 });
  expect(nextWait(state, LIMITS_OF_TEST, 9_999, 0)).toEqual({ state: { tries: 7 }, waitMs: 1600 });
});

test("after any number of tries the wait is positive, finite and within its bounds", () => {
  const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.nat(), fc.nat(20_000), chances, (tries, lastedMs, chance) => {
      const { waitMs } = nextWait({ tries }, LIMITS_OF_TEST, lastedMs, chance);
      expect(waitMs).toBeGreaterThanOrEqual(25);
      expect(waitMs).toBeLessThanOrEqual(5000);
    }),
  );
});
