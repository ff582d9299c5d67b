import { expect, test } from "vitest";
import { createLiveTurn, endedTurn, type LiveTurn, type TurnUpdate } from "../../controller/turn-handle.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { AT, EVENTS, SETTLEMENT } from "../support/samples.ts";
import { within } from "../support/until.ts";

function liveTurn(): LiveTurn {
  return createLiveTurn({ id: "t-1", member: "m-1", number: 3, abort: async () => undefined });
}

const delta = (part: string, offset: number, text: string) =>
  ({ kind: "delta", turn: "t-1", part, offset, text }) as const;
const snapshot = (part: string, text: string) => ({ kind: "snapshot", turn: "t-1", part, text }) as const;
const tool = (seq: number) => ({ seq, at: AT, event: EVENTS["turn.tool"] });

async function drain(turn: LiveTurn, from = turn.handle[Symbol.asyncIterator]()): Promise<TurnUpdate[]> {
  const seen: TurnUpdate[] = [];
  for (;;) {
    const { done, value } = await within("the next update", from.next());
    if (done) return seen;
    seen.push(value);
  }
}

test("a reader sees text and events in their order, and the settlement last", async () => {
  const turn = liveTurn();
  const reading = drain(turn);
  turn.text(delta("p", 0, "a"));
  turn.event(tool(1));
  turn.text(delta("p", 1, "b"));
  turn.settle(SETTLEMENT);
  expect(await reading).toEqual([
    { kind: "text", part: "p", from: 0, text: "a" },
    { kind: "event", entry: tool(1) },
    { kind: "text", part: "p", from: 1, text: "b" },
    { kind: "settled", settlement: SETTLEMENT },
  ]);
  expect(await turn.handle.settlement).toBe(SETTLEMENT);
});

test("for a slow reader neighbouring text of one part is one update, and nothing is lost", async () => {
  const turn = liveTurn();
  const iterator = turn.handle[Symbol.asyncIterator]();
  for (let at = 0; at < 1000; at += 1) turn.text(delta("p", at, String(at % 10)));
  turn.settle(SETTLEMENT);
  const [first, ...others] = await drain(turn, iterator);
  expect(first).toEqual({ kind: "text", part: "p", from: 0, text: "0123456789".repeat(100) });
  expect(others).toHaveLength(1);
});

test("text is not put together over another part, an event, a gap or a snapshot", async () => {
  const turn = liveTurn();
  const iterator = turn.handle[Symbol.asyncIterator]();
  turn.text(delta("p", 0, "ab"));
  turn.text(delta("q", 2, "c"));
  turn.text(delta("p", 2, "d"));
  turn.event(tool(1));
  turn.text(delta("p", 3, "e"));
  turn.text(delta("p", 9, "f"));
  turn.text(snapshot("p", "whole"));
  turn.text(delta("p", 5, "r"));
  turn.settle(SETTLEMENT);
  const texts = (await drain(turn, iterator)).flatMap((update) =>
    update.kind === "text" ? [[update.part, update.from, update.text]] : [],
  );
  expect(texts).toEqual([
    ["p", 0, "ab"],
    ["q", 2, "c"],
    ["p", 2, "d"],
    ["p", 3, "e"],
    ["p", 9, "f"],
    ["p", 0, "wholer"],
  ]);
});

test("a reader that is too slow ends with OVERLOADED, others go on, and the settlement is still to be had", async () => {
  const turn = liveTurn();
  const slow = turn.handle[Symbol.asyncIterator]();
  const quick = turn.handle[Symbol.asyncIterator]();
  let seen = 0;
  for (let seq = 1; seq <= 10_001; seq += 1) {
    turn.event(tool(seq));
    if (!(await quick.next()).done) seen += 1;
  }
  expect(seen).toBe(10_001);
  turn.settle(SETTLEMENT);
  await expect(drain(turn, slow)).rejects.toMatchObject({ code: "OVERLOADED" });
  await expect(slow.next()).rejects.toMatchObject({ code: "OVERLOADED" });
  expect(await drain(turn, quick)).toEqual([{ kind: "settled", settlement: SETTLEMENT }]);
  expect(await turn.handle.settlement).toBe(SETTLEMENT);
});

test("several readers each get everything, and one that returns early hinders nobody", async () => {
  const turn = liveTurn();
  const first = drain(turn);
  const second = turn.handle[Symbol.asyncIterator]();
  turn.text(delta("p", 0, "a"));
  expect((await second.next()).value).toMatchObject({ text: "a" });
  expect(await second.return?.()).toEqual({ done: true, value: undefined });
  turn.text(delta("p", 1, "b"));
  turn.settle(SETTLEMENT);
  expect(await second.next()).toEqual({ done: true, value: undefined });
  const texts = (await first).flatMap((update) => (update.kind === "text" ? [update.text] : []));
  expect(texts.join("")).toBe("ab");
});

test("returning wakes a reader that waits", async () => {
  const turn = liveTurn();
  const iterator = turn.handle[Symbol.asyncIterator]();
  const waiting = iterator.next();
  await iterator.return?.();
  expect(await within("the waiting reader", waiting)).toEqual({ done: true, value: undefined });
});

test("leaving a loop lets go of the reader", async () => {
  const turn = liveTurn();
  turn.settle(SETTLEMENT);
  for await (const update of turn.handle) {
    expect(update.kind).toBe("settled");
    break;
  }
  expect(await drain(turn)).toHaveLength(1);
});

test("one who asks twice at once is answered twice, in order", async () => {
  const turn = liveTurn();
  const iterator = turn.handle[Symbol.asyncIterator]();
  const both = Promise.all([iterator.next(), iterator.next(), iterator.next()]);
  turn.event(tool(1));
  turn.settle(SETTLEMENT);
  expect(await within("all three answers", both, 2000)).toEqual([
    { done: false, value: { kind: "event", entry: tool(1) } },
    { done: false, value: { kind: "settled", settlement: SETTLEMENT } },
    { done: true, value: undefined },
  ]);
});

test("who comes after the end gets the settlement alone", async () => {
  const turn = liveTurn();
  turn.text(delta("p", 0, "a"));
  turn.settle(SETTLEMENT);
  expect(await drain(turn)).toEqual([{ kind: "settled", settlement: SETTLEMENT }]);
  expect(await drain(turn)).toHaveLength(1);
});

test("a handle that fails rejects its settlement and its readers, after what they had not read yet", async () => {
  const turn = liveTurn();
  const iterator = turn.handle[Symbol.asyncIterator]();
  turn.text(delta("p", 0, "a"));
  turn.fail(new HoldfastError("STOPPED"));
  expect((await iterator.next()).value).toMatchObject({ text: "a" });
  await expect(iterator.next()).rejects.toMatchObject({ code: "STOPPED" });
  await expect(drain(turn)).rejects.toMatchObject({ code: "STOPPED" });
  await expect(turn.handle.settlement).rejects.toMatchObject({ code: "STOPPED" });
});

test("the first end wins", async () => {
  const settled = liveTurn();
  settled.settle(SETTLEMENT);
  settled.fail(new HoldfastError("STOPPED"));
  settled.text(delta("p", 0, "late"));
  expect(await settled.handle.settlement).toBe(SETTLEMENT);
  expect(await drain(settled)).toEqual([{ kind: "settled", settlement: SETTLEMENT }]);
  const failed = liveTurn();
  failed.fail(new HoldfastError("STOPPED"));
  failed.settle(SETTLEMENT);
  await expect(failed.handle.settlement).rejects.toMatchObject({ code: "STOPPED" });
});

test("an end that nobody awaits ends no process", async () => {
  const unhandled: unknown[] = [];
  const listener = (error: unknown) => unhandled.push(error);
  process.on("unhandledRejection", listener);
  liveTurn().fail(new HoldfastError("STOPPED"));
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", listener);
  expect(unhandled).toEqual([]);
});

test("the handle of a turn that has ended gives its settlement to every reader, and nothing is left to abort", async () => {
  const handle = endedTurn({ id: "t-1", member: "m-1", number: 4, settlement: SETTLEMENT });
  expect(handle).toMatchObject({ id: "t-1", member: "m-1", number: 4 });
  expect(await handle.settlement).toBe(SETTLEMENT);
  for (let reader = 0; reader < 2; reader += 1) {
    const seen = [];
    for await (const update of handle) seen.push(update);
    expect(seen).toEqual([{ kind: "settled", settlement: SETTLEMENT }]);
  }
  await expect(handle.abort()).rejects.toMatchObject({ code: "ABORT_NO_TURN" });
});
