/** Facts 1.7: a permanent 529 takes Claude Code about three minutes, in which nothing of ours may end the turn before it does. */
import { expect, test } from "vitest";
import { claudeSubject } from "../conformance/suite/claude-subject.ts";
import { openStage, settled } from "../conformance/suite/subject.ts";
import { follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";

const MINUTE_MS = 60_000;

const stage = openStage(claudeSubject("2.1.332"));

test("facts 1.7: a provider that is overloaded for good is shown as waited for, and the turn fails when the CLI gives up, settled", async () => {
  const { t, steady } = stage();
  const member = await settled(stage(), steady());
  t.model.script("Overloaded", [{ kind: "status", status: 529 }]);
  const turn = follow(t.host.submit(member, "Overloaded?"));
  const { id } = turn.handle;
  await until("the end", () => t.host.turn(id).settlement !== null, 6 * MINUTE_MS);
  expect(t.host.turn(id).settlement).toMatchObject({
    outcome: "failed",
    settled: true,
    error: { code: "NATIVE_FAILED", message: expect.stringContaining("529") },
    keepsProcess: true,
  });
  expect(turn.all("turn.waiting").length).toBeGreaterThanOrEqual(8);
  t.model.reset();
  const next = await play(t, member, "Better now?");
  expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
});
