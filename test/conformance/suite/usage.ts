/** What a turn used, by two witnesses: the relay on the way to the model, and the CLI. Prefixes of its requests, by digest. */
import { expect, test } from "vitest";
import { play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { type DriverSubject, STATED_USAGE, type Stage } from "./subject.ts";

export function usageTests(stage: () => Stage, { manifest, tools, usage }: DriverSubject): void {
  test.skipIf(!manifest.reportsUsage)(
    "law 11, S24, S26: relay and CLI count the same, call by call and in sum, and each request begins with the one before",
    async () => {
      const { t, steady } = stage();
      const member = steady();
      t.model.script("Count for both", [
        { kind: "reply", toolCalls: [tools.shell("true")], usage: STATED_USAGE },
        { kind: "reply", text: "Counted.", usage: STATED_USAGE },
      ]);
      const { handle, settlement } = await play(t, member, "Count for both.");
      const of = { turn: handle.id };
      // A call is recorded behind its answer's end, which the CLI may have told before.
      await until("the records of both calls", () => t.host.usage(of).calls.calls >= 2);
      const { calls, cli, difference, unrequested } = t.host.usage(of);
      expect(cli).toEqual({ turns: 1, knownTurns: 1, usage: settlement.usage });
      expect(calls).toMatchObject({ calls: 2, dueCalls: 2, knownCalls: 2 });
      expect(unrequested.calls).toBe(0);
      expect(calls.counters.inputTokens.tokens).toBe(2 * (usage.inputTokens ?? Number.NaN));
      expect(calls.counters.allOutputTokens.tokens).toBe(2 * STATED_USAGE.outputTokens);
      expect(difference).toMatchObject({ inputTokens: 0, outputTokens: 0, cacheReadTokens: 0 });
      const list = t.host.store.calls.list(of, 10);
      expect(list.map(({ outcome, status, isTerminal }) => [outcome, status, isTerminal])).toEqual([
        ["completed", 200, true],
        ["completed", 200, true],
      ]);
      expect(list[0]).toMatchObject({ member, turn: handle.id, prefix: { verdict: "equal", breaks: [] } });
      expect(list[0]?.nativeId).toBe(settlement.session?.nativeId);
    },
  );

  test("law 11, S24: a call that states nothing is unknown at the relay too, and makes the turn's sum unknown", async () => {
    const { t, steady } = stage();
    t.model.script("Count half", [
      { kind: "reply", toolCalls: [tools.shell("true")], usage: STATED_USAGE },
      { kind: "reply", text: "Uncounted.", usage: "absent" },
    ]);
    const { handle } = await play(t, steady(), "Count half.");
    const of = { turn: handle.id };
    await until("the records of both calls", () => t.host.usage(of).calls.calls >= 2);
    const { calls, difference } = t.host.usage(of);
    expect(calls).toMatchObject({ dueCalls: 2, knownCalls: 1 });
    expect(calls.counters.allOutputTokens).toEqual({
      tokens: null,
      knownTokens: STATED_USAGE.outputTokens,
      knownCalls: 1,
    });
    expect(difference.outputTokens).toBeNull();
  });
}
