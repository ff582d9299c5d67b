import fc from "fast-check";
import { expect, test } from "vitest";
import {
  applyRecord,
  CLOSED_TURNS_KEPT,
  compactRecords,
  emptyState,
  type JournalState,
} from "../../bridge/journal-state.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { AT, EVENTS, SETTLEMENT } from "../support/samples.ts";

function accepted(turn: string, number: number, member = "m-1"): ControlEvent {
  return { type: "turn.accepted", member, turn, number };
}
function ended(turn: string, number: number, member = "m-1"): ControlEvent {
  return { type: "turn.ended", member, turn, number, settlement: SETTLEMENT };
}

function append(state: JournalState, ...events: ControlEvent[]): void {
  for (const event of events)
    applyRecord(state, { t: "event", entry: { seq: state.head + 1, at: AT, event } });
}

function stateWith(...events: ControlEvent[]): JournalState {
  const state = emptyState("j-1");
  append(state, ...events);
  return state;
}

/** What a fresh file with the compacted records says. */
function reread(state: JournalState): JournalState {
  const again = emptyState("other");
  for (const record of compactRecords(state)) applyRecord(again, record);
  return again;
}

test("events are numbered without gaps; a gap is an error and not skipped", () => {
  const state = stateWith(accepted("t-1", 1));
  expect(state.head).toBe(1);
  expect(() =>
    applyRecord(state, { t: "event", entry: { seq: 3, at: AT, event: EVENTS["turn.delivered"] } }),
  ).toThrow(RangeError);
  expect(state.head).toBe(1);
});

test("an acknowledgement drops what it covers, never goes back and never passes the head", () => {
  const state = stateWith(accepted("t-1", 1), EVENTS["turn.delivered"], EVENTS["turn.delivered"]);
  applyRecord(state, { t: "acked", seq: 2 });
  expect(state.unacked.map(({ seq }) => seq)).toEqual([3]);
  applyRecord(state, { t: "acked", seq: 1 });
  expect(state.acked).toBe(2);
  applyRecord(state, { t: "acked", seq: 99 });
  expect(state).toMatchObject({ acked: 3, unacked: [] });
});

test("a turn is open from its acceptance to its end, and known as closed after it", () => {
  const state = stateWith(accepted("t-1", 1));
  expect(state.open.get("t-1")).toMatchObject({ number: 1, wasSubmitting: false, wasDelivered: false });
  append(state, { ...EVENTS["turn.submitting"], turn: "t-1" });
  expect(state.open.get("t-1")).toMatchObject({ wasSubmitting: true, wasDelivered: false });
  append(state, { ...EVENTS["turn.delivered"], turn: "t-1" });
  expect(state.open.get("t-1")).toMatchObject({ wasSubmitting: true, wasDelivered: true });
  append(state, ended("t-1", 1));
  expect(state.open.size).toBe(0);
  expect(state.closed.get("t-1")).toBe("ended");
});

test("a veto closes a turn that was never accepted", () => {
  const state = stateWith({ type: "turn.vetoed", member: "m-1", turn: "t-9" });
  expect(state.closed.get("t-9")).toBe("vetoed");
});

test("the highest number of each member is kept, also beyond acknowledgement", () => {
  const state = stateWith(accepted("t-1", 4), ended("t-1", 4), accepted("t-2", 7, "m-2"));
  applyRecord(state, { t: "acked", seq: 3 });
  applyRecord(state, { t: "number", member: "m-1", number: 2 });
  expect([...state.numbers]).toEqual([
    ["m-1", 4],
    ["m-2", 7],
  ]);
});

test("the fence only rises", () => {
  const state = emptyState("j-1");
  for (const fence of [5, 3, 8]) applyRecord(state, { t: "fence", fence });
  expect(state.fence).toBe(8);
});

test("closed turns are remembered up to a limit; the oldest go first", () => {
  const state = emptyState("j-1");
  for (let n = 1; n <= CLOSED_TURNS_KEPT + 2; n += 1)
    append(state, accepted(`t-${n}`, n), ended(`t-${n}`, n));
  expect(state.closed.size).toBe(CLOSED_TURNS_KEPT);
  expect(state.closed.has("t-2")).toBe(false);
  expect(state.closed.has("t-3")).toBe(true);
  expect(state.numbers.get("m-1")).toBe(CLOSED_TURNS_KEPT + 2);
});

test("compacted records say the same as the state they were made of, open turns included", () => {
  const turn = fc.constantFrom("t-1", "t-2", "t-3", "t-4");
  const step = fc.oneof(
    turn.map((id) => accepted(id, Number(id.slice(2)), `m-${Number(id.slice(2)) % 2}`)),
    turn.map((id): ControlEvent => ({ ...EVENTS["turn.submitting"], turn: id })),
    turn.map((id): ControlEvent => ({ ...EVENTS["turn.delivered"], turn: id })),
    turn.map((id) => ended(id, 1)),
    turn.map((id): ControlEvent => ({ type: "turn.vetoed", member: "m-1", turn: id })),
    fc.record({ t: fc.constant("acked" as const), seq: fc.nat(20) }),
    fc.record({ t: fc.constant("fence" as const), fence: fc.nat(20) }),
    fc.record({ t: fc.constant("life" as const), epoch: fc.nat(20) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const state = emptyState("j-1");
      for (const one of steps) {
        if ("t" in one) applyRecord(state, one);
        else append(state, one);
      }
      // How an earlier life ended is known to this life alone; the next one looks for this one's mark.
      expect(reread(state)).toEqual({ ...state, earlierEnd: "none" });
    }),
  );
});

test("how a life ended is told to the next one: with its mark, or without", () => {
  const state = emptyState("j-1");
  const begin = () => applyRecord(state, { t: "life", epoch: state.epoch + 1 });
  begin();
  expect(state.earlierEnd).toBe("none");
  begin();
  expect(state.earlierEnd).toBe("unclean");
  applyRecord(state, { t: "stopped" });
  begin();
  expect(state).toMatchObject({ earlierEnd: "clean", isStopped: false });
  begin();
  expect(state.earlierEnd).toBe("unclean");
});

test("an open turn survives a compaction after its acceptance was acknowledged", () => {
  const state = stateWith(accepted("t-1", 3), { ...EVENTS["turn.submitting"], turn: "t-1" });
  applyRecord(state, { t: "acked", seq: 2 });
  expect(reread(state).open.get("t-1")).toEqual({
    turn: "t-1",
    member: "m-1",
    number: 3,
    wasSubmitting: true,
    wasDelivered: false,
    nativeId: null,
    nativeMessage: "msg_10",
  });
});

test("an open turn is known with the session and the message by which the CLI's history is asked about it", () => {
  const context = { ...EVENTS["turn.context"], turn: "t-1", nativeId: "ses_4" };
  const state = stateWith(accepted("t-1", 3), context, { ...EVENTS["turn.submitting"], turn: "t-1" });
  expect(reread(state).open.get("t-1")).toMatchObject({ nativeId: "ses_4", nativeMessage: "msg_10" });
});
