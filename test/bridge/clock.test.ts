import { expect, test } from "vitest";
import { realClock } from "../../bridge/clock.ts";

test("the real clock runs what is due once, after its time", async () => {
  const startMs = realClock.monotonicMs();
  let runs = 0;
  await new Promise<void>((resolve) => {
    realClock.after(5, () => {
      runs += 1;
      resolve();
    });
  });
  // A timer of Node may be up to a millisecond early.
  expect(realClock.monotonicMs() - startMs).toBeGreaterThanOrEqual(4);
  expect(runs).toBe(1);
});

test("a cancelled wait and a cancelled poll never run", async () => {
  const ran: string[] = [];
  realClock.after(1, () => ran.push("wait"))();
  realClock.afterPoll(() => ran.push("poll"))();
  await new Promise<void>((resolve) => realClock.after(5, () => realClock.afterPoll(resolve)));
  expect(ran).toEqual([]);
});

test("what waits for a poll comes after what is settled already", async () => {
  const order: string[] = [];
  const polled = new Promise<void>((resolve) =>
    realClock.afterPoll(() => {
      order.push("poll");
      resolve();
    }),
  );
  await Promise.resolve().then(() => order.push("promise"));
  await polled;
  expect(order).toEqual(["promise", "poll"]);
});

test("the wall clock says the time of day, for records", () => {
  expect(Math.abs(realClock.nowAt() - Date.now())).toBeLessThan(1000);
});
