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

test("a fork's record goes on from its parent's: both are read, and a line that lacks between them is a loss", () => {
  const parent = createRolloutProof(THREAD, TURN, whole.length);
  for (const line of whole) parent.line(line);
  expect(parent.problem()).toBeNull();
  const base = { thread_id: THREAD, end_ordinal_exclusive: whole.length, end_byte_offset: 4096 };
  const meta = (changes: Record<string, unknown> = {}, ordinal = whole.length) =>
    JSON.stringify({
      ordinal,
      type: "session_meta",
      payload: { id: "fork", history_base: base, ...changes },
    });
  const read = (line: string) => {
    const proof = createRolloutProof("fork", TURN);
    proof.line(line);
    return proof;
  };
  const fork = read(meta());
  expect(fork.base()).toEqual(base);
  expect(fork.holdsTurn()).toBe(false);
  expect(fork.problem()).toBe("the history lacks the last settled turn");
  expect(fork.problem(true)).toBeNull();
  const late = whole.length + 1;
  expect(read(meta({}, late)).problem(true)).toBe(
    `the history lacks lines ${whole.length} to ${whole.length} of the CLI's record`,
  );
  for (const broken of [{}, { ...base, thread_id: 7 }, { ...base, end_byte_offset: -1 }, "x"])
    expect(read(meta({ history_base: broken })).problem(true)).toBe(
      "the CLI's record does not say where it begins",
    );
});

test("a parent's record that ends before the fork begins is a loss", () => {
  const cut = createRolloutProof(THREAD, TURN, whole.length + 2);
  for (const line of whole) cut.line(line);
  expect(cut.problem()).toBe(
    `the history lacks lines ${whole.length} to ${whole.length + 1} of the CLI's record`,
  );
});
