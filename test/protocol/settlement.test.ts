import { expect, test } from "vitest";
import {
  ContextStatus,
  concludeTurn,
  type NativeStatus,
  OUTCOMES,
  Outcome,
  Settlement,
  Timings,
} from "../../protocol/settlement.ts";
import {
  NEW_TURN,
  TURN_EVENTS,
  TURN_TABLE,
  type TurnCause,
  type TurnEvent,
  type TurnMachine,
  transition,
} from "../../protocol/turn-state.ts";
import { changed, without } from "../support/changed.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { combinations, fitting, rowsOf } from "../support/table.ts";

// cause, submitted, native end seen, proof of delivery, what the CLI said -> outcome, settled ("end": as the end was seen).
// Identity is in the tests below.
const CONCLUSIONS = rowsOf(`
  native                 *    *    *                                  completed  completed    end
  native                 *    *    *                                  failed     failed       end
  native                 *    *    *                                  aborted    aborted      end
  native                 *    *    *                                  nothing    unknown      end
  refused                *    *    *                                  *          refused      no
  gate_failed            *    *    *                                  *          not_sent     no
  submit_rejected        *    *    *                                  *          not_sent     no
  submit_unclear         *    yes  *                                  *          failed       end
  submit_unclear         *    no   proved_absent                      *          not_sent     no
  submit_unclear         *    no   none|proved_present|proof_unavailable  *      unknown      no
  first_event_late       *    *    *                                  *          failed       end
  end_overdue            *    *    *                                  *          failed       end
  permission_unresolved  *    *    *                                  *          failed       end
  provider_late          *    *    *                                  *          failed       end
  stream_lost            no   *    *                                  *          not_sent     end
  stream_lost            yes  *    proved_absent                      *          not_sent     end
  stream_lost            yes  *    none|proved_present|proof_unavailable  *      stream_lost  end
  abort_requested        no   *    *                                  *          not_sent     end
  abort_requested        yes  *    proved_absent                      *          not_sent     end
  abort_requested        yes  *    none|proved_present|proof_unavailable  *      aborted      end
  time_limit             no   *    *                                  *          not_sent     end
  time_limit             yes  *    proved_absent                      *          not_sent     end
  time_limit             yes  *    none|proved_present|proof_unavailable  *      failed       end
  process_exited         no   *    *                                  *          not_sent     no
  process_exited         yes  *    proved_absent                      *          not_sent     no
  process_exited         yes  *    none                               *          failed       end
  process_exited         yes  *    proved_present|proof_unavailable   *          unknown      end
  none                   *    *    *                                  *          unknown      no
`);

const CAUSES: readonly TurnCause[] = [
  "native",
  "refused",
  "gate_failed",
  "submit_rejected",
  "submit_unclear",
  "first_event_late",
  "end_overdue",
  "stream_lost",
  "process_exited",
  "abort_requested",
  "time_limit",
  "permission_unresolved",
  "provider_late",
];
const DELIVERIES = ["none", "proved_absent", "proved_present", "proof_unavailable"];
const STATUSES = ["completed", "failed", "aborted", "nothing"];

function orNull<T extends string>(value: string): T | null {
  return value === "none" || value === "nothing" ? null : (value as T);
}

for (const cause of [...CAUSES, "none"]) {
  test(`a turn with the cause ${cause} is concluded as the table says`, () => {
    for (const [sent = "", end = "", delivery = "", status = ""] of combinations([
      ["yes", "no"],
      ["yes", "no"],
      DELIVERIES,
      STATUSES,
    ])) {
      const values = [cause, sent, end, delivery, status];
      const rows = fitting(CONCLUSIONS, values);
      expect(rows, `one row for ${values.join(" ")}`).toHaveLength(1);
      const [outcome, settled] = rows[0]?.slice(5) ?? [];
      const turn: TurnMachine = {
        state: "ended",
        cause: orNull(cause),
        wasSubmitted: sent === "yes",
        sawNativeEnd: end === "yes",
        identity: null,
        delivery: orNull(delivery),
      };
      expect(concludeTurn(turn, orNull(status)), values.join(" ")).toEqual({
        outcome,
        settled: settled === "end" && end === "yes",
      });
    }
  });
}

/** A turn after these events. */
function turnAfter(...events: TurnEvent[]): TurnMachine {
  return events.reduce((turn, event) => transition(turn, event).turn, NEW_TURN);
}

const RUNNING = ["begin", "prepared", "gate_passed", "submit_accepted", "own_event"] as const;

test("a lost stream never yields completed, not even when the native end comes later", () => {
  const turn = turnAfter(...RUNNING, "stream_lost", "native_end", "verified");
  expect(concludeTurn(turn, "completed")).toEqual({ outcome: "stream_lost", settled: true });
});

test("a cancel without a native end is not settled", () => {
  for (const last of ["native_quiet", "process_exited"] as const) {
    const turn = turnAfter(...RUNNING, "abort_requested", last);
    expect(concludeTurn(turn, null)).toEqual({ outcome: "aborted", settled: false });
  }
  const killed = turnAfter(...RUNNING, "abort_requested", "abort_late", "kill_done");
  expect(concludeTurn(killed, null)).toEqual({ outcome: "aborted", settled: false });
});

test("a cancel with a verified native end is an abort that settled", () => {
  const turn = turnAfter(...RUNNING, "abort_requested", "native_end", "verified");
  expect(concludeTurn(turn, "aborted")).toEqual({ outcome: "aborted", settled: true });
});

test("a turn whose native id changed is failed, whatever ended it and whatever the CLI said", () => {
  const natural = turnAfter(...RUNNING, "native_end", "identity_changed");
  const cut = turnAfter(...RUNNING, "stream_lost", "native_end", "identity_changed");
  for (const status of ["completed", "failed", "aborted", null] as const) {
    for (const turn of [natural, cut]) {
      expect(concludeTurn(turn, status)).toEqual({ outcome: "failed", settled: true });
    }
  }
});

test("an id that can't be verified for now changes no outcome", () => {
  const turn = turnAfter(...RUNNING, "native_end", "verify_unavailable");
  expect(concludeTurn(turn, "completed")).toEqual({ outcome: "completed", settled: true });
});

test("a process that dies around the submission is asked for proof, and unknown without one", () => {
  const upTo = ["begin", "prepared", "gate_passed", "process_exited"] as const;
  expect(concludeTurn(turnAfter(...upTo, "proved_absent"), null).outcome).toBe("not_sent");
  expect(concludeTurn(turnAfter(...upTo, "proved_present"), null).outcome).toBe("unknown");
  expect(concludeTurn(turnAfter(...upTo, "proof_unavailable"), null).outcome).toBe("unknown");
});

test("no path to an end settles without the native end, or completes for any other cause", () => {
  let ends = 0;
  const follow = (turn: TurnMachine): void => {
    if (turn.state === "ended") {
      ends += 1;
      const status: NativeStatus | null = turn.sawNativeEnd ? "completed" : null;
      const { outcome, settled } = concludeTurn(turn, status);
      expect(settled, JSON.stringify(turn)).toBe(turn.sawNativeEnd);
      if (outcome === "completed") expect(turn).toMatchObject({ cause: "native", sawNativeEnd: true });
      if (settled) expect(["completed", "failed", "aborted", "stream_lost"]).toContain(outcome);
      if (!turn.wasSubmitted) expect(["refused", "not_sent"]).toContain(outcome);
      return;
    }
    const row = TURN_TABLE[turn.state];
    for (const event of TURN_EVENTS) {
      if (row[event] !== undefined && row[event] !== "late") follow(transition(turn, event).turn);
    }
  };
  follow(NEW_TURN);
  expect(ends).toBeGreaterThan(100);
});

test("outcomes and context statuses are the listed words and no others", () => {
  for (const outcome of OUTCOMES) expect(Outcome.safeParse(outcome).success).toBe(true);
  expect(Outcome.safeParse("done").success).toBe(false);
  for (const status of ["NEW", "LIVE", "RESTORED", "LOST"]) {
    expect(ContextStatus.safeParse(status).success).toBe(true);
  }
  expect(ContextStatus.safeParse("new").success).toBe(false);
});

test("a settlement is accepted as it is, with every nullable field null too", () => {
  expect(Settlement.parse(SETTLEMENT)).toEqual(SETTLEMENT);
  const bare = {
    ...SETTLEMENT,
    context: null,
    session: null,
    processGeneration: null,
    error: { code: "NATIVE_FAILED", message: "", details: {} },
    parts: [],
    evidence: [],
  };
  expect(Settlement.parse(bare)).toEqual(bare);
  const tailless = changed(SETTLEMENT, "session.tail", null);
  expect(Settlement.parse(tailless)).toEqual(tailless);
});

for (const [path, bad] of [
  ["outcome", "won"],
  ["settled", 1],
  ["context", "WARM"],
  ["contextReason", "x".repeat(2001)],
  ["session", {}],
  ["session.nativeId", ""],
  ["session.directory", "workspace"],
  ["session.directory", `/${"x".repeat(1024)}`],
  ["session.tail", { role: "system", id: "m" }],
  ["session.isVerified", null],
  ["processGeneration", -1],
  ["parts", ["x".repeat(2 * 1024 * 1024 + 1)]],
  ["parts", [null]],
  ["textIsCut", null],
  ["textIsPartial", "no"],
  ["usage", null],
  ["evidence", [{}]],
  ["timings", {}],
  ["error", { code: "NO_SUCH_CODE", message: "", details: {} }],
  ["keepsProcess", undefined],
] as const) {
  test(`a settlement whose ${path} is ${JSON.stringify(bad)?.slice(0, 40)} is refused`, () => {
    expect(Settlement.safeParse(changed(SETTLEMENT, path, bad)).success).toBe(false);
  });
}

test("every field of a settlement and of its timings must be there", () => {
  for (const field of Object.keys(SETTLEMENT)) {
    expect(Settlement.safeParse(without(SETTLEMENT, field)).success, field).toBe(false);
  }
  for (const field of Object.keys(SETTLEMENT.timings)) {
    expect(Timings.safeParse(without(SETTLEMENT.timings, field)).success, field).toBe(false);
  }
});

test("a timing is unknown or not negative", () => {
  expect(Timings.safeParse({ ...SETTLEMENT.timings, gateMs: null }).success).toBe(true);
  expect(Timings.safeParse({ ...SETTLEMENT.timings, gateMs: -1 }).success).toBe(false);
  expect(Timings.safeParse({ ...SETTLEMENT.timings, gateMs: Number.NaN }).success).toBe(false);
});
