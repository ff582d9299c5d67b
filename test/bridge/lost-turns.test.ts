import { join } from "node:path";
import { expect, test } from "vitest";
import { openJournal } from "../../bridge/journal.ts";
import { concludeLostTurns, lostSettlement } from "../../bridge/lost-turns.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { recordStateOf } from "../../protocol/record-state.ts";
import { Settlement } from "../../protocol/settlement.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { keptLog } from "../support/kept-log.ts";
import { AT, EVENTS, SETTLEMENT } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const TURN = { turn: "t-1", member: "m-1", number: 3, wasSubmitting: false, wasDelivered: false };

test("a turn that was never submitted is not_sent: no byte of it went out", () => {
  const settlement = lostSettlement(TURN, AT);
  expect(settlement).toMatchObject({ outcome: "not_sent", settled: false, textIsPartial: false });
  expect(settlement.error?.code).toBe("BRIDGE_GONE");
  expect(recordStateOf(settlement)).toBe("not_sent");
});

test("from the intent on it is unknown, delivered or not: nobody saw its end", () => {
  for (const wasDelivered of [false, true]) {
    const settlement = lostSettlement({ ...TURN, wasSubmitting: true, wasDelivered }, AT);
    expect(settlement).toMatchObject({ outcome: "unknown", settled: false, keepsProcess: false });
    expect(settlement.error?.code).toBe("DELIVERY_UNKNOWN");
    expect(settlement.evidence[0]?.what).toBe(wasDelivered ? "bridge_ended_after_delivery" : "bridge_ended");
    expect(recordStateOf(settlement)).toBe("unknown");
  }
});

test("what nobody counted is null and not zero", () => {
  const { usage, timings } = lostSettlement(TURN, AT);
  expect(Object.values(usage).filter((value) => value === 0)).toEqual([]);
  expect(Object.values(timings)).toEqual(Object.values(timings).map(() => null));
});

test("it fits the schema that the link checks", () => {
  expect(Settlement.safeParse(lostSettlement(TURN, AT)).success).toBe(true);
});

test("each open turn of an earlier life gets its one end; ended ones get none", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  const accepted = (turn: string, number: number): ControlEvent => ({
    type: "turn.accepted",
    member: "m-1",
    turn,
    number,
  });
  await first.append(accepted("t-1", 1));
  await first.append({ ...EVENTS["turn.ended"], turn: "t-1", settlement: SETTLEMENT });
  await first.append(accepted("t-2", 2));
  await first.append({ ...EVENTS["turn.submitting"], turn: "t-2" });
  await first.append(accepted("t-3", 3));
  await first.close();

  const second = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  await concludeLostTurns(second, new FakeClock());
  const ends = second.state.unacked.flatMap(({ event }) =>
    event.type === "turn.ended" ? [[event.turn, event.settlement.outcome, event.number]] : [],
  );
  expect(ends).toEqual([
    ["t-1", "completed", 3],
    ["t-2", "unknown", 2],
    ["t-3", "not_sent", 3],
  ]);
  expect(second.state.open.size).toBe(0);
  await second.close();

  const third = await openJournal(path, { nowAt: () => AT, log: keptLog() });
  await concludeLostTurns(third, new FakeClock());
  expect(third.state.head).toBe(second.state.head);
  await third.close();
});
