import { expect, test } from "vitest";
import { realClock } from "../../controller/clock.ts";
import { within } from "../support/until.ts";

test("the clock is this process's own: it counts on, waits, and can be told not to", async () => {
  const startMs = realClock.monotonicMs();
  expect(Math.abs(realClock.nowAt() - Date.now())).toBeLessThan(1000);
  const order: string[] = [];
  const cancelled = realClock.after(1, () => order.push("cancelled"));
  cancelled();
  await within("the timer", new Promise<void>((resolve) => realClock.after(5, resolve)));
  await within("the poll", new Promise<void>((resolve) => realClock.afterPoll(resolve)));
  expect(order).toEqual([]);
  expect(realClock.monotonicMs() - startMs).toBeGreaterThanOrEqual(4);
});

test("what waits for the next poll can be cancelled too", async () => {
  let hasRun = false;
  realClock.afterPoll(() => {
    hasRun = true;
  })();
  await within("the next poll", new Promise<void>((resolve) => realClock.afterPoll(resolve)));
  expect(hasRun).toBe(false);
});
