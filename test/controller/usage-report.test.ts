import { expect, test } from "vitest";
import { UNKNOWN_USAGE } from "../../controller/relay/call-usage.ts";
import type { ModelCall } from "../../controller/relay/model-call.ts";
import { SHARED_COUNTERS, usageReport } from "../../controller/usage-report.ts";
import type { Outcome } from "../../protocol/settlement.ts";
import { NO_USAGE, type Usage } from "../../protocol/usage.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { CALL, KNOWN } from "./relay/calls.ts";
import { type Rig, simpleRig } from "./store/rig.ts";

let calls = 0;

function call(rig: Rig, changes: Partial<ModelCall> = {}): void {
  calls += 1;
  rig.store.calls.record({ ...CALL, id: `call-${calls}`, ...changes }, null);
}

/** A turn that ended, with what its CLI states. */
function turn(
  rig: Rig,
  id: string,
  usage: Partial<Usage>,
  outcome: Outcome = "completed",
  member = "m-1",
): void {
  rig.admit(id, member);
  rig.store.end(id, { ...SETTLEMENT, outcome, usage: { ...NO_USAGE, ...usage } });
}

const OWN: Usage = {
  source: "cli",
  inputTokens: 30,
  outputTokens: 15,
  reasoningTokens: 5,
  cacheReadTokens: 60,
  cacheWriteTokens: 10,
};

test("two witnesses that agree differ by 0, of the turn, its member and its sandbox", () => {
  const rig = simpleRig();
  turn(rig, "t-1", OWN);
  call(rig);
  for (const of of [{ turn: "t-1" }, { member: "m-1" }, { sandbox: "box" }]) {
    const { calls: relay, cli, difference } = usageReport(rig.store, of);
    expect(relay).toMatchObject({ calls: 1, dueCalls: 1, knownCalls: 1 });
    expect(cli).toEqual({ turns: 1, knownTurns: 1, usage: OWN });
    expect(difference).toEqual(Object.fromEntries(SHARED_COUNTERS.map((name) => [name, 0])));
  }
});

test("the difference says who counted more", () => {
  const rig = simpleRig();
  turn(rig, "t-1", { ...OWN, inputTokens: 100, outputTokens: 1 });
  call(rig);
  call(rig);
  const { difference } = usageReport(rig.store, { turn: "t-1" });
  expect(difference).toEqual({
    inputTokens: -40,
    outputTokens: 29,
    reasoningTokens: 5,
    cacheReadTokens: 60,
    cacheWriteTokens: 10,
  });
});

test("where one witness does not know, neither is the difference known; zero is no unknown", () => {
  const rig = simpleRig();
  turn(rig, "t-1", { ...OWN, reasoningTokens: null, cacheReadTokens: 0 });
  call(rig, { usage: { ...KNOWN, cacheWriteTokens: null } });
  const { difference, calls: relay } = usageReport(rig.store, { turn: "t-1" });
  expect(difference).toMatchObject({
    inputTokens: 0,
    reasoningTokens: null,
    cacheReadTokens: 60,
    cacheWriteTokens: null,
  });
  expect(relay.knownCalls).toBe(1);
});

test("one turn or call of which nothing is known makes the member's sums unknown, and says how many are", () => {
  const rig = simpleRig();
  turn(rig, "t-1", OWN);
  call(rig);
  turn(rig, "t-2", {}, "stream_lost");
  call(rig, { turn: "t-2", outcome: "cut", usage: UNKNOWN_USAGE });
  const member = usageReport(rig.store, { member: "m-1" });
  expect(member.cli).toMatchObject({ turns: 2, knownTurns: 1, usage: { inputTokens: null } });
  expect(member.calls).toMatchObject({
    dueCalls: 2,
    knownCalls: 1,
    counters: { inputTokens: { tokens: null, knownTokens: 30, knownCalls: 1 } },
  });
  expect(member.difference.inputTokens).toBeNull();
  expect(usageReport(rig.store, { turn: "t-1" }).difference.inputTokens).toBe(0);
});

test("calls with no turn are told apart, and no CLI is held to them", () => {
  const rig = simpleRig();
  turn(rig, "t-1", OWN);
  call(rig);
  call(rig, { turn: null });
  const report = usageReport(rig.store, { member: "m-1" });
  expect([report.calls.calls, report.unrequested.calls]).toEqual([2, 1]);
  expect(report.calls.counters.inputTokens.tokens).toBe(60);
  expect(report.difference.inputTokens).toBe(0);
});

test("a turn that runs counts as calls, and in no difference yet", () => {
  const rig = simpleRig();
  turn(rig, "t-1", OWN);
  call(rig);
  rig.admit("t-2");
  call(rig, { turn: "t-2" });
  const report = usageReport(rig.store, { member: "m-1" });
  expect(report.calls.counters.inputTokens.tokens).toBe(60);
  expect(report.cli.turns).toBe(1);
  expect(report.difference.inputTokens).toBe(0);
  expect(usageReport(rig.store, { turn: "t-2" }).difference.inputTokens).toBeNull();
});

test("turns that reached no CLI are none of which figures are due", () => {
  const rig = simpleRig();
  turn(rig, "t-1", OWN);
  call(rig);
  turn(rig, "t-2", {}, "not_sent");
  turn(rig, "t-3", {}, "refused");
  expect(usageReport(rig.store, { member: "m-1" })).toMatchObject({
    cli: { turns: 1, knownTurns: 1 },
    difference: { inputTokens: 0 },
  });
});

test("members of one sandbox add up there, and nowhere else", () => {
  const rig = simpleRig();
  rig.member("m-2");
  turn(rig, "t-1", OWN);
  turn(rig, "u-1", OWN, "completed", "m-2");
  call(rig);
  call(rig, { member: "m-2", turn: "u-1" });
  expect(usageReport(rig.store, { sandbox: "box" })).toMatchObject({
    calls: { calls: 2 },
    cli: { turns: 2, usage: { inputTokens: 60 } },
    difference: { inputTokens: 0 },
  });
  expect(usageReport(rig.store, { member: "m-2" }).calls.calls).toBe(1);
});

test("what is not there has no report", () => {
  const { store } = simpleRig();
  for (const [of, code] of [
    [{ turn: "none" }, "TURN_UNKNOWN"],
    [{ member: "none" }, "MEMBER_UNKNOWN"],
    [{ sandbox: "none" }, "SANDBOX_UNKNOWN"],
  ] as const)
    expect(() => usageReport(store, of)).toThrow(expect.objectContaining({ code }));
  expect(usageReport(store, { member: "m-1" })).toMatchObject({ calls: { calls: 0 }, cli: { turns: 0 } });
});

test("S14: a turn and its member show the member's budget; one without, and a sandbox, show none", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  expect(usageReport(rig.store, { turn: "t-1" }).budget).toBeNull();
  rig.store.calls.budgets.set("m-1", 50_000);
  rig.store.calls.budgets.reserve("call-a", "m-1", 100);
  const budget = { limitTokens: 50_000, spentTokens: 0, reservedTokens: 16_484, remainingTokens: 33_516 };
  expect(usageReport(rig.store, { member: "m-1" }).budget).toEqual(budget);
  expect(usageReport(rig.store, { turn: "t-1" }).budget).toEqual(budget);
  expect(usageReport(rig.store, { sandbox: "box" }).budget).toBeNull();
});
