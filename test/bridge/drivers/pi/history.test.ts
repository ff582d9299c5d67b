import { expect, test } from "vitest";
import { holdsAnswer, leadsTo, tailOf } from "../../../../bridge/drivers/pi/history.ts";
import type { Entries } from "../../../../bridge/drivers/pi/native-message.ts";

type Row = [id: string, parentId: string | null, role?: string, timestamp?: number];

function entries(leafId: string | null, ...rows: Row[]): Entries {
  return {
    leafId,
    entries: rows.map(([id, parentId, role, timestamp]) => ({
      type: role === undefined ? "model_change" : "message",
      id,
      parentId,
      ...(role === undefined ? {} : { message: { role, ...(timestamp === undefined ? {} : { timestamp }) } }),
    })),
  };
}

test("nothing behind the tail: the leaf is the tail", () => {
  expect(leadsTo("a2", entries("a2"))).toBe(true);
  expect(leadsTo("a2", entries("a1"))).toBe(false);
  expect(leadsTo("a2", entries(null))).toBe(false);
});

test("the path from the leaf leads to the tail over later records of any kind", () => {
  const later = entries("t4", ["m3", "a2"], ["t4", "m3"]);
  expect(leadsTo("a2", later)).toBe(true);
});

test("a tail on a branch that was left is not on the path", () => {
  // u3 hangs on what was before a2: somebody went back there.
  expect(leadsTo("a2", entries("u3", ["u3", "a0", "user"]))).toBe(false);
});

test("records in a ring end, and prove nothing", () => {
  expect(leadsTo("a2", entries("x", ["x", "y"], ["y", "x"]))).toBe(false);
});

test("a turn's tail is its last answer on the path, else the user's message, else nothing", () => {
  const turn = entries(
    "e6",
    ["u2", "a1", "user"],
    ["a3", "u2", "assistant"],
    ["r4", "a3", "toolResult"],
    ["a5", "r4", "assistant"],
    ["e6", "a5"],
  );
  expect(tailOf(turn)).toEqual({ role: "assistant", id: "a5" });
  expect(tailOf(entries("u2", ["u2", "a1", "user"]))).toEqual({ role: "user", id: "u2" });
  expect(tailOf(entries("m1", ["m1", null]))).toBeNull();
  expect(tailOf(entries("u9", ["a3", "x", "assistant"], ["u9", "a1", "user"]))).toEqual({
    role: "user",
    id: "u9",
  });
});

test("an answer is held when a record on the path has its time", () => {
  const turn = entries("a3", ["u2", "a1", "user", 5], ["a3", "u2", "assistant", 7]);
  expect(holdsAnswer(turn, 7)).toBe(true);
  expect(holdsAnswer(turn, 5)).toBe(false);
  expect(holdsAnswer(entries("u2", ["u2", "a1", "user", 5]), 7)).toBe(false);
});
