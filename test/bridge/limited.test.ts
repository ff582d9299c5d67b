import { expect, test } from "vitest";
import { limited } from "../../bridge/limited.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";

function options(clock: FakeClock, signal?: AbortSignal) {
  return { clock, limitMs: 100, code: "GATE_FAILED" as const, what: "the canary", signal };
}

/** How the work ended: its value, or the code of its error. */
async function ending(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => (error instanceof HoldfastError ? error.code : error));
}

test("work that ends in time gives its own result, and leaves no timer", async () => {
  const clock = new FakeClock();
  expect(await limited(options(clock), async () => 7)).toBe(7);
  expect(clock.pending).toBe(0);
});

test("the work's own error passes unchanged", async () => {
  const clock = new FakeClock();
  const fault = new Error("own");
  expect(await ending(limited(options(clock), () => Promise.reject(fault)))).toBe(fault);
  expect(clock.pending).toBe(0);
});

test("at the limit the wait ends with the given code, and the work is told", async () => {
  const clock = new FakeClock();
  let told: AbortSignal | null = null;
  const wait = ending(
    limited(options(clock), (signal) => {
      told = signal;
      return new Promise(() => undefined);
    }),
  );
  await clock.elapse(99);
  expect(told).toHaveProperty("aborted", false);
  await clock.elapse(1);
  expect(await wait).toBe("GATE_FAILED");
  expect(told).toHaveProperty("aborted", true);
  expect(clock.pending).toBe(0);
});

test("after a freeze the result that was waiting to be read wins over the late timer", async () => {
  const clock = new FakeClock();
  let arrive: (value: string) => void = () => undefined;
  const wait = ending(limited(options(clock), () => new Promise((resolve) => (arrive = resolve))));
  clock.freeze(5000, () => arrive("in time"));
  expect(await wait).toBe("in time");
});

test("an abort from outside ends the wait as STOPPED", async () => {
  const clock = new FakeClock();
  const outside = new AbortController();
  const wait = ending(limited(options(clock, outside.signal), () => new Promise(() => undefined)));
  outside.abort();
  expect(await wait).toBe("STOPPED");
  expect(clock.pending).toBe(0);
});

test("work is not begun when the abort came before it", async () => {
  const clock = new FakeClock();
  let wasBegun = false;
  const work = limited(options(clock, AbortSignal.abort()), async () => {
    wasBegun = true;
  });
  expect(await ending(work)).toBe("STOPPED");
  expect(wasBegun).toBe(false);
  expect(clock.pending).toBe(0);
});

test("a late failure of the work reaches nobody", async () => {
  const clock = new FakeClock();
  let fail: (error: Error) => void = () => undefined;
  const wait = ending(limited(options(clock), () => new Promise((_, reject) => (fail = reject))));
  await clock.elapse(100);
  fail(new Error("late"));
  await settled();
  expect(await wait).toBe("GATE_FAILED");
});
