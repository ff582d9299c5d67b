import { expect, test } from "vitest";
import { type CallBook, createRecordQueue } from "../../../controller/relay/record-queue.ts";
import { CALL } from "./calls.ts";

/** A book that keeps what it was given, and refuses the calls that the test names. */
function book(refused: readonly string[] = []) {
  const writes: string[][] = [];
  const settled: Array<[string, number | null]> = [];
  const lost: string[] = [];
  const keep = (ids: string[]) => {
    if (ids.some((id) => refused.includes(id))) throw new Error("the disk is full");
    writes.push(ids);
  };
  const made: CallBook = {
    record(call) {
      keep([call.id]);
      return { ...call, prefix: null };
    },
    recordAll: (calls) => keep(calls.map(({ call }) => call.id)),
    budgets: { of: () => null, reserve: () => true, settle: (id, tokens) => void settled.push([id, tokens]) },
  };
  const queue = createRecordQueue(
    () => made,
    ({ id }, why) => lost.push(`${id}: ${why}`),
  );
  const take = (id: string, changes: Partial<typeof CALL> = {}) => {
    queue.expect();
    queue.take({ ...CALL, ...changes, id }, null);
  };
  return { queue, writes, settled, lost, take };
}

test("calls that end together are one write, and later ones another", async () => {
  const { queue, writes, take } = book();
  for (const id of ["a", "b", "c"]) take(id);
  expect(writes).toEqual([]);
  await queue.settled();
  take("d");
  await queue.settled();
  expect(writes).toEqual([["a", "b", "c"], ["d"]]);
});

test("one that can't be kept takes no other one along, and is told of", async () => {
  const { queue, writes, lost, settled, take } = book(["b"]);
  for (const id of ["a", "b", "c"]) take(id);
  await queue.settled();
  expect(writes).toEqual([["a"], ["c"]]);
  expect(lost).toEqual(["b: the disk is full"]);
  expect(settled.map(([id]) => id)).toEqual(["a", "b", "c"]);
});

test("what a call used is settled: all that was counted, nothing for a refusal, or unknown", async () => {
  const { queue, settled, take } = book();
  const { allInputTokens, allOutputTokens } = CALL.usage;
  take("known");
  take("refused", { status: 429 });
  take("unknown", { usage: { ...CALL.usage, allOutputTokens: null } });
  await queue.settled();
  expect(settled).toEqual([
    ["known", (allInputTokens ?? Number.NaN) + (allOutputTokens ?? Number.NaN)],
    ["refused", 0],
    ["unknown", null],
  ]);
});

test("it is settled when the last call that was expected is kept, and at once with none", async () => {
  const { queue, take } = book();
  await queue.settled();
  queue.expect();
  let isSettled = false;
  const settling = queue.settled().then(() => {
    isSettled = true;
  });
  take("a");
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  expect(isSettled).toBe(false);
  queue.take({ ...CALL, id: "b" }, null);
  await settling;
});
