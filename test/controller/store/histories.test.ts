import { expect, test } from "vitest";
import { AT, SETTLEMENT } from "../../support/samples.ts";
import { simpleRig } from "./rig.ts";

test("events and locators come oldest first, and nobody else's", () => {
  const rig = simpleRig();
  rig.member("m-2");
  for (const [turn, member] of [
    ["t-1", "m-1"],
    ["t-2", "m-1"],
    ["t-3", "m-2"],
  ] as const) {
    rig.admit(turn, member);
    const number = turn === "t-2" ? 2 : 1;
    const nativeId = `${SETTLEMENT.session?.nativeId}${member}`;
    const session = SETTLEMENT.session === null ? null : { ...SETTLEMENT.session, nativeId };
    rig.apply([
      { type: "turn.delivered", turn, member },
      { type: "turn.ended", turn, member, number, settlement: { ...SETTLEMENT, session } },
    ]);
  }
  expect(rig.store.eventsOf("t-2").map(({ seq, event }) => [seq, event.type])).toEqual([
    [3, "turn.delivered"],
  ]);
  expect(rig.store.locatorHistory("m-1").map(({ settledTurns }) => settledTurns)).toEqual([1, 2]);
  expect(rig.store.locatorHistory("m-2")).toHaveLength(1);
  expect(rig.store.eventsOf("none")).toEqual([]);
  expect(rig.store.eventsOf("t-1")[0]?.at).toBe(AT);
});
