import { expect, test } from "vitest";
import { decideAfterDeath, decideRecovery, REVIVALS } from "../../controller/recovery.ts";
import { METHODS } from "../../protocol/methods.ts";

test("every answer that a bridge can give to the recovery question has its decision", () => {
  const answers = METHODS["turn.recover"].result.shape.state.options;
  expect(answers.map((answer) => [answer, decideRecovery(answer)])).toEqual([
    ["never_received", expect.objectContaining({ kind: "end", outcome: "not_sent", what: "never_received" })],
    ["active", { kind: "wait" }],
    ["ended", { kind: "wait" }],
    ["forgotten", expect.objectContaining({ kind: "end", outcome: "unknown", what: "forgotten" })],
  ]);
});

test("an answer that nobody can give is a mistake of the programmer", () => {
  expect(() => decideRecovery("maybe" as "active")).toThrow(TypeError);
});

test("a running sandbox is waited for, a missing one ends its turns, a stopped one is revived so many times", () => {
  for (const revivals of [0, 1, 99]) {
    expect(decideAfterDeath("running", revivals)).toBe("wait");
    expect(decideAfterDeath("missing", revivals)).toBe("unknown");
  }
  const tries = Array.from({ length: REVIVALS + 2 }, (_, revivals) => decideAfterDeath("stopped", revivals));
  expect(tries).toEqual([...Array.from({ length: REVIVALS }, () => "revive"), "unknown", "unknown"]);
});
