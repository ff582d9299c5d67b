import { expect, test } from "vitest";
import { createRolloutProof } from "../../../../bridge/drivers/codex/rollout.ts";
import { recordOf, THREAD, TURN } from "./rig.ts";

const OTHER = "01a22ce0-1111-7000-8000-000000000002";
const whole = recordOf(THREAD, [TURN, OTHER]).trimEnd().split("\n");

function problemOf(lines: readonly string[], turn: string | null = OTHER): string | null {
  const proof = createRolloutProof(THREAD, turn);
  for (const line of lines) proof.line(line);
  return proof.problem();
}

test("a record with every line and the turn's end is whole", () => {
  expect(problemOf(whole)).toBeNull();
  expect(problemOf(whole, TURN)).toBeNull();
  expect(problemOf(whole, null)).toBeNull();
  expect(problemOf(["", ...whole, ""])).toBeNull();
});

test("a turn that was ended is one that is there; one that only began is not", () => {
  const aborted = whole.map((line) => line.replace("task_complete", "turn_aborted"));
  expect(problemOf(aborted)).toBeNull();
  expect(problemOf(whole.slice(0, -1))).toBe("the history lacks the last settled turn");
  expect(problemOf(whole, "01a22ce0-1111-7000-8000-000000000009")).toBe(
    "the history lacks the last settled turn",
  );
});

test("a line that can't be read is a loss when no other has its number, wherever it is", () => {
  for (let at = 1; at < whole.length - 1; at += 1) {
    const cut = whole.map((line, index) => (index === at ? line.slice(0, -3) : line));
    expect(problemOf(cut), `line ${at}`).toContain(`the history lacks lines ${at} to ${at}`);
    const joined = [
      ...whole.slice(0, at),
      `${whole[at]?.slice(0, 9)}${whole[at + 1]}`,
      ...whole.slice(at + 2),
    ];
    expect(problemOf(joined), `line ${at}`).not.toBeNull();
  }
});

test("a cut line whose number was given again is no loss", () => {
  const again = whole.flatMap((line, at) => (at === 4 ? [line.slice(0, 30), line] : [line]));
  expect(problemOf(again)).toBeNull();
});

test("an empty record, one without its head, and another thread's are no history", () => {
  expect(problemOf([])).toBe("the CLI has no history for the saved id");
  expect(problemOf(["nonsense", "{}"])).toBe("the CLI has no history for the saved id");
  expect(problemOf(whole.slice(1))).toBe("the CLI's record is not of the saved id");
  expect(problemOf(recordOf(OTHER, [OTHER]).split("\n"))).toBe("the CLI's record is not of the saved id");
});

test("a record without numbers proves the turn, and nothing about its lines", () => {
  const bare = whole.map((line) => line.replace(/"ordinal":\d+,/, ""));
  expect(problemOf(bare)).toBeNull();
});
