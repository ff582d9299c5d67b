import { expect, test } from "vitest";
import { checkForkMove, FORK_MOVES, FORK_STATES, ForkedSession } from "../../protocol/fork.ts";
import { dispensableFields, NO_NATIVE_IDS, wrongBounds } from "../support/bounds.ts";
import { rowsOf } from "../support/table.ts";

const PERMITTED = rowsOf(`
  prepared      materialized
  prepared      failed
  materialized  ready
  materialized  failed
`).map((row) => row.join(" "));

test("a fork moves only as listed; every other move throws an error that names both states", () => {
  for (const from of FORK_STATES) {
    for (const to of FORK_STATES) {
      const move = () => checkForkMove(from, to);
      if (PERMITTED.includes(`${from} ${to}`)) expect(move, `${from} ${to}`).not.toThrow();
      else expect(move).toThrow(`a fork can't go from "${from}" to "${to}"`);
    }
  }
  expect(Object.keys(FORK_MOVES)).toEqual([...FORK_STATES]);
});

test("a forked session is bounded, and may have no tail", () => {
  const sample = { nativeId: "ses_2", directory: "/workspace", tail: { role: "assistant", id: "msg_9" } };
  const bounds = [
    { at: "nativeId", good: ["ses_2"], bad: NO_NATIVE_IDS },
    { at: "directory", good: ["/"], bad: ["", "workspace", `/${"x".repeat(1024)}`, null] },
    { at: "tail", good: [null], bad: [{}, "msg_9", undefined] },
  ];
  expect(wrongBounds(ForkedSession, sample, bounds)).toEqual([]);
  expect(dispensableFields(ForkedSession, sample)).toEqual([]);
});
