import { expect, test } from "vitest";
import { createPipeCalls } from "../../../../bridge/drivers/stdio/pipe-calls.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

const LOST = new HoldfastError("STREAM_LOST", "the pipe is lost");

function bench() {
  const clock = new FakeClock();
  const sent: number[] = [];
  let last = 0;
  const calls = createPipeCalls<number, string>(clock, () => ++last);
  const ends: string[] = [];
  return {
    clock,
    calls,
    sent,
    ends,
    call(name: string, send: (id: number) => Promise<void> = async (id) => void sent.push(id)) {
      calls.call(name, 1000, send).then(
        (answer) => ends.push(`${name}: ${answer}`),
        (error: HoldfastError) => ends.push(`${name}: ${error.code} ${error.message}`),
      );
    },
  };
}

test("each call has its answer, in whatever order they come", async () => {
  const { call, calls, sent, ends, clock } = bench();
  call("a");
  call("b");
  await settled();
  expect(sent).toEqual([1, 2]);
  expect([calls.answered(2, "for b"), calls.answered(1, "for a")]).toEqual([true, true]);
  await settled();
  expect(ends).toEqual(["b: for b", "a: for a"]);
  expect(clock.pending).toBe(0);
});

test("an answer that is doubled, late or to nobody's question is nobody's", async () => {
  const { call, calls, ends, clock } = bench();
  call("a");
  call("b");
  await settled();
  expect([calls.answered(1, "x"), calls.answered(1, "again")]).toEqual([true, false]);
  await clock.elapse(1000);
  expect(calls.answered(2, "late")).toBe(false);
  for (const id of [3, "1", null, undefined, {}]) expect(calls.answered(id, "?")).toBe(false);
  await settled();
  expect(ends).toEqual(["a: x", "b: CLI_REFUSED b: no result within 1000 ms"]);
});

test("when the pipe is lost everything that waits ends with it, and so does what comes later, unsent", async () => {
  const { call, calls, sent, ends, clock } = bench();
  for (const name of ["a", "b", "c"]) call(name);
  await settled();
  calls.fail(LOST);
  calls.fail(new HoldfastError("INTERNAL"));
  call("d");
  await settled();
  expect(ends.toSorted()).toEqual(
    ["a", "b", "c", "d"].map((name) => `${name}: STREAM_LOST the pipe is lost`),
  );
  expect(sent).toEqual([1, 2, 3]);
  expect([calls.answered(1, "late"), clock.pending]).toEqual([false, 0]);
});

test("a send that fails, or throws, ends its call and no other", async () => {
  const { call, calls, ends } = bench();
  call("a", () => Promise.reject(new HoldfastError("CLI_EXITED", "gone")));
  call("b", () => {
    throw new HoldfastError("INTERNAL", "thrown");
  });
  call("c");
  await settled();
  calls.answered(3, "fine");
  await settled();
  expect(ends.toSorted()).toEqual(["a: CLI_EXITED gone", "b: INTERNAL thrown", "c: fine"]);
});

test("an answer is the end, whatever its send still says", async () => {
  const { call, calls, ends } = bench();
  const send = Promise.withResolvers<void>();
  call("a", () => send.promise);
  await settled();
  calls.answered(1, "fast");
  await settled();
  send.reject(new HoldfastError("CLI_EXITED"));
  await settled();
  expect(ends).toEqual(["a: fast"]);
});

test("a send that fails behind the limit or the loss is nobody's, and does not float", async () => {
  const { call, calls, ends, clock } = bench();
  const sends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  for (const [at, { promise }] of sends.entries()) call(`${at}`, () => promise);
  await settled();
  await clock.elapse(1000);
  calls.fail(LOST);
  for (const { reject } of sends) reject(new Error("later"));
  // An unhandled rejection would fail the run.
  await settled();
  expect(ends).toHaveLength(2);
});

test("so many may wait and no more; an answered one makes room", async () => {
  const { call, calls, sent, ends } = bench();
  for (let at = 0; at < 65; at += 1) call(`c${at}`);
  await settled();
  expect(ends).toEqual(["c64: OVERLOADED c64: too many requests wait"]);
  calls.answered(1, "x");
  await settled();
  call("later");
  await settled();
  expect(sent).toHaveLength(65);
  calls.fail(LOST);
});
