// What a turn used, seen through a host: the bridge's settlement and the relay's records side by side.
import { expect, test } from "vitest";
import { startFakeHost } from "../support/fake-host.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { CALL } from "./relay/calls.ts";

test("a settled turn's usage has both witnesses, over a restart; what is not there has none", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const turn = fake.host.submit(member, "hello", { id: "t-1" });
  await bridge.untilAsked("turn.submit");
  fake.host.store.calls.record({ ...CALL, sandbox: "box", member, turn: "t-1" }, null);
  expect(fake.host.usage({ turn: "t-1" })).toMatchObject({ calls: { knownCalls: 1 }, cli: { turns: 0 } });
  bridge.end();
  await turn.settlement;
  const report = {
    calls: { knownCalls: 1, counters: { inputTokens: { tokens: CALL.usage.inputTokens } } },
    cli: { turns: 1, knownTurns: 1, usage: SETTLEMENT.usage },
    difference: { inputTokens: (CALL.usage.inputTokens ?? 0) - (SETTLEMENT.usage.inputTokens ?? 0) },
  };
  expect(fake.host.usage({ turn: "t-1" })).toMatchObject(report);
  await fake.reopen();
  for (const of of [{ member }, { sandbox: "box" }]) expect(fake.host.usage(of)).toMatchObject(report);
  expect(() => fake.host.usage({ turn: "none" })).toThrow(expect.objectContaining({ code: "TURN_UNKNOWN" }));
});
