import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Journal, openJournal } from "../../bridge/journal.ts";
import type { JournaledTurn } from "../../bridge/journal-state.ts";
import { concludeLostTurns, createInterruptedTurns, lostSettlement } from "../../bridge/lost-turns.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { recordStateOf } from "../../protocol/record-state.ts";
import type { History } from "../../protocol/recovery.ts";
import { Settlement } from "../../protocol/settlement.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { keptLog } from "../support/kept-log.ts";
import { AT, EVENTS, LAUNCH, SETTLEMENT } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until } from "../support/until.ts";

const TURN: JournaledTurn = {
  turn: "t-1",
  member: "m-1",
  number: 3,
  wasSubmitting: false,
  wasDelivered: false,
  nativeId: "ses_1",
  nativeMessage: null,
};
const SUBMITTING: JournaledTurn = { ...TURN, wasSubmitting: true, nativeMessage: "msg_10" };

function conclude(turn: JournaledTurn, history: History | null = null): Settlement {
  const settlement = lostSettlement(turn, history, AT);
  if (settlement === null) throw new Error("the history is wanted first");
  return settlement;
}

test("a turn that was never submitted is not_sent: no byte of it went out", () => {
  const settlement = conclude(TURN);
  expect(settlement).toMatchObject({ outcome: "not_sent", settled: false, textIsPartial: false });
  expect(settlement.error?.code).toBe("BRIDGE_GONE");
  expect(recordStateOf(settlement)).toBe("not_sent");
});

test("one that was delivered is unknown, whatever the history would say: nobody saw its end", () => {
  for (const history of [null, "absent", "present", "unclear"] as const) {
    const settlement = conclude({ ...SUBMITTING, wasDelivered: true }, history);
    expect(settlement).toMatchObject({ outcome: "unknown", settled: false, keepsProcess: false });
    expect(settlement.error?.code).toBe("DELIVERY_UNKNOWN");
    expect(settlement.evidence[0]?.what).toBe("bridge_ended_after_delivery");
    expect(recordStateOf(settlement)).toBe("unknown");
  }
});

test("one under submission waits for the history: absent is not_sent, all else unknown", () => {
  expect(lostSettlement(SUBMITTING, null, AT)).toBeNull();
  for (const [history, outcome, what] of [
    ["absent", "not_sent", "message_absent"],
    ["present", "unknown", "message_present"],
    ["unclear", "unknown", "bridge_ended"],
  ] as const) {
    const settlement = conclude(SUBMITTING, history);
    expect(settlement.outcome).toBe(outcome);
    expect(settlement.evidence[0]).toMatchObject({ what, source: "history" });
  }
});

test("what nobody counted is null and not zero", () => {
  const { usage, timings } = conclude(TURN);
  expect(Object.values(usage).filter((value) => value === 0)).toEqual([]);
  expect(Object.values(timings)).toEqual(Object.values(timings).map(() => null));
});

test("it fits the schema that the link checks", () => {
  expect(Settlement.safeParse(conclude(TURN)).success).toBe(true);
});

const accepted = (turn: string, number: number): ControlEvent => ({
  type: "turn.accepted",
  member: "m-1",
  turn,
  number,
});

function endsIn(journal: Journal) {
  return journal.state.unacked.flatMap(({ event }) =>
    event.type === "turn.ended" ? [[event.turn, event.settlement.outcome, event.number]] : [],
  );
}

test("each open turn of an earlier life gets its one end, but for one that needs a question; ended ones get none", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  await first.append(accepted("t-1", 1));
  await first.append({ ...EVENTS["turn.ended"], turn: "t-1", settlement: SETTLEMENT });
  await first.append(accepted("t-2", 2));
  await first.append({ ...EVENTS["turn.submitting"], turn: "t-2" });
  await first.append({ ...EVENTS["turn.delivered"], turn: "t-2" });
  await first.append(accepted("t-3", 3));
  await first.append(accepted("t-4", 4));
  await first.append({ ...EVENTS["turn.submitting"], turn: "t-4" });
  await first.close();

  const second = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  await concludeLostTurns(second, new FakeClock());
  expect(endsIn(second)).toEqual([
    ["t-1", "completed", 3],
    ["t-2", "unknown", 2],
    ["t-3", "not_sent", 3],
  ]);
  expect([...second.state.open.keys()]).toEqual(["t-4"]);
  await second.close();

  const third = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  await concludeLostTurns(third, new FakeClock());
  expect(third.state.head).toBe(second.state.head);
  expect([...third.state.open.keys()]).toEqual(["t-4"]);
  await third.close();
});

/** A journal in which `t-4` was left under submission. */
async function interrupted(prove: () => Promise<History>) {
  const path = join(temporaryDirectory(), "journal");
  const journal = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  onTestFinished(() => journal.close().catch(() => undefined /* closed by the test */));
  await journal.append(accepted("t-4", 4));
  await journal.append({ ...EVENTS["turn.submitting"], turn: "t-4" });
  const seen = { proofs: 0, running: new Set<string>(), broken: [] as unknown[] };
  const turns = createInterruptedTurns({
    journal,
    clock: new FakeClock(),
    isRunning: (turn) => seen.running.has(turn),
    prove: () => {
      seen.proofs += 1;
      return prove();
    },
    onBroken: (error) => seen.broken.push(error),
  });
  return { journal, turns, seen };
}

test("the history is asked once, however often the turn is asked about, and the turn ends once", async () => {
  const gate = Promise.withResolvers<History>();
  const { journal, turns, seen } = await interrupted(() => gate.promise);
  for (let n = 0; n < 3; n += 1) expect(turns.conclude("t-4", LAUNCH)).toBe(true);
  await settled();
  expect(seen.proofs).toBe(1);
  expect(endsIn(journal)).toEqual([]);
  gate.resolve("absent");
  await until("the end", () => endsIn(journal).length === 1);
  expect(endsIn(journal)).toEqual([["t-4", "not_sent", 4]]);
  expect(turns.conclude("t-4", LAUNCH)).toBe(false);
});

test("a history that can't be asked, or does not answer, leaves it unknown", async () => {
  const broken = await interrupted(() => Promise.reject(new Error("the CLI does not start")));
  broken.turns.conclude("t-4", LAUNCH);
  await until("the end", () => endsIn(broken.journal).length === 1);
  const unasked = await interrupted(() => Promise.resolve("absent"));
  unasked.turns.conclude("t-4", null);
  await until("the end", () => endsIn(unasked.journal).length === 1);
  expect([...endsIn(broken.journal), ...endsIn(unasked.journal)]).toEqual([
    ["t-4", "unknown", 4],
    ["t-4", "unknown", 4],
  ]);
  expect(unasked.seen.proofs).toBe(0);
});

test("turns of this life, and those that are not there, are none of it", async () => {
  const { turns, seen } = await interrupted(() => Promise.resolve("absent"));
  expect(turns.conclude("none", LAUNCH)).toBe(false);
  seen.running.add("t-4");
  expect(turns.conclude("t-4", LAUNCH)).toBe(false);
  expect(seen.proofs).toBe(0);
});

test("an end that can't be stored is said, and the turn stays open for the next life", async () => {
  const { journal, turns, seen } = await interrupted(() => Promise.resolve("absent"));
  await journal.close();
  expect(turns.conclude("t-4", LAUNCH)).toBe(true);
  await until("the fault", () => seen.broken.length === 1);
  expect(journal.state.open.has("t-4")).toBe(true);
});
