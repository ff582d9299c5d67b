import { expect, test } from "vitest";
import {
  checkMove,
  isOpen,
  RECORD_MOVES,
  RECORD_STATES,
  type RecordState,
  recordStateOf,
} from "../../protocol/record-state.ts";
import { OUTCOMES } from "../../protocol/settlement.ts";
import { rowsOf } from "../support/table.ts";

const PERMITTED = rowsOf(`
  prepared   admitted
  prepared   not_sent
  admitted   delivered
  admitted   settled
  admitted   failed
  admitted   not_sent
  admitted   unknown
  delivered  settled
  delivered  failed
  delivered  not_sent
  delivered  unknown
`).map((row) => row.join(" "));

test("a record moves only as listed; every other move throws an error that names both states", () => {
  for (const from of RECORD_STATES) {
    for (const to of RECORD_STATES) {
      if (PERMITTED.includes(`${from} ${to}`)) {
        expect(() => checkMove(from, to), `${from} ${to}`).not.toThrow();
      } else {
        expect(() => checkMove(from, to), `${from} ${to}`).toThrowError(
          expect.objectContaining({
            code: "INTERNAL",
            message: `a turn's record can't go from "${from}" to "${to}"`,
          }),
        );
      }
    }
  }
});

test("a record is open exactly while it may still move", () => {
  const open: RecordState[] = ["prepared", "admitted", "delivered"];
  for (const state of RECORD_STATES) expect(isOpen(state), state).toBe(open.includes(state));
});

test("no record gets past the bridge without having been admitted", () => {
  for (const [from, targets] of Object.entries(RECORD_MOVES)) {
    if (targets.includes("delivered")) expect(from).toBe("admitted");
  }
  expect(RECORD_MOVES.prepared).not.toContain("unknown");
});

// outcome -> record when settled, record when not
const LEFT_AS: Record<(typeof OUTCOMES)[number], [RecordState, RecordState]> = {
  completed: ["settled", "failed"],
  failed: ["settled", "failed"],
  aborted: ["settled", "failed"],
  stream_lost: ["settled", "failed"],
  refused: ["not_sent", "not_sent"],
  not_sent: ["not_sent", "not_sent"],
  unknown: ["unknown", "unknown"],
};

test("a settlement leaves the record where its outcome and settledness say", () => {
  for (const outcome of OUTCOMES) {
    const [settled, unsettled] = LEFT_AS[outcome];
    expect(recordStateOf({ outcome, settled: true }), outcome).toBe(settled);
    expect(recordStateOf({ outcome, settled: false }), outcome).toBe(unsettled);
  }
});

test("every settlement can be applied to an admitted record and to a delivered one", () => {
  for (const outcome of OUTCOMES) {
    for (const settled of [true, false]) {
      const to = recordStateOf({ outcome, settled });
      expect(() => checkMove("admitted", to), outcome).not.toThrow();
      expect(() => checkMove("delivered", to), outcome).not.toThrow();
    }
  }
});
