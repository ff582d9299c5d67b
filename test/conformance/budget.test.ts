/** A member's token budget, with real CLIs: a used-up one ends the turn soon, and nothing of it reaches the provider. */
import { describe, expect, test } from "vitest";
import { play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { claudeSubject } from "./suite/claude-subject.ts";
import { CODEX_SUBJECT } from "./suite/codex-subject.ts";
import { PI_SUBJECT } from "./suite/pi-subject.ts";
import { KILO_SUBJECT, OPENCODE_SUBJECT } from "./suite/served.ts";
import { openStage, STATED_USAGE } from "./suite/subject.ts";

/** None of them waits and asks again for longer. */
const SOON_MS = 20_000;

describe.each([PI_SUBJECT, CODEX_SUBJECT, claudeSubject("2.1.332"), OPENCODE_SUBJECT, KILO_SUBJECT])(
  "$manifest.cli",
  (subject) => {
    const stage = openStage(subject);

    test("S14: a budget of 1 token: the turn fails with that reason, no call reaches the provider; with a larger one it goes on", async () => {
      const { t, fresh } = stage();
      const member = fresh();
      t.host.setBudget(member, 1);
      const { handle, settlement } = await play(t, member, "Are you there?");
      expect(settlement).toMatchObject({
        outcome: "failed",
        settled: true,
        error: { code: "NATIVE_FAILED" },
      });
      expect(settlement.error?.message).toContain("budget of tokens");
      expect(settlement.timings.settleMs).toBeLessThan(SOON_MS);
      expect(t.model.requests()).toEqual([]);
      expect(t.host.usage({ turn: handle.id })).toMatchObject({
        budget: { limitTokens: 1, spentTokens: 0, reservedTokens: 0, remainingTokens: 1 },
        calls: { dueCalls: 0 },
      });

      t.host.setBudget(member, 1_000_000);
      t.model.script("Then now", [
        { kind: "reply", toolCalls: [subject.tools.shell("true")], usage: STATED_USAGE },
        { kind: "reply", text: "Here.", usage: STATED_USAGE },
      ]);
      const next = await play(t, member, "Then now.");
      expect(next.settlement).toMatchObject({ outcome: "completed" });
      const spentTokens = 2 * (STATED_USAGE.inputTokens + STATED_USAGE.outputTokens);
      await until("what it cost", () => t.host.budgetOf(member)?.spentTokens === spentTokens);
      expect(t.host.usage({ turn: next.handle.id }).budget).toEqual({
        limitTokens: 1_000_000,
        spentTokens,
        reservedTokens: 0,
        remainingTokens: 1_000_000 - spentTokens,
      });
    });
  },
);
