import fc from "fast-check";
import { expect, test } from "vitest";
import {
  NEW_TURN,
  TURN_EVENTS,
  TURN_STATES,
  TURN_TABLE,
  type TurnCause,
  type TurnEffect,
  type TurnEvent,
  type TurnMachine,
  type TurnState,
  transition,
} from "../../protocol/turn-state.ts";

// Every pair that moves a turn, written by hand: state, event, next state, effects, cause.
const MOVES = `
  accepted    begin                  preparing   prepare                             -
  accepted    abort_requested        ended       finish                              abort_requested
  preparing   prepared               gating      gate                                -
  preparing   refused                ended       finish                              refused
  preparing   abort_requested        ended       cancel_preparation,finish           abort_requested
  preparing   time_limit             ended       cancel_preparation,finish           time_limit
  gating      gate_passed            submitting  submit                              -
  gating      gate_failed            ended       finish                              gate_failed
  gating      stream_lost            ended       finish                              stream_lost
  gating      process_exited         ended       finish                              process_exited
  gating      abort_requested        ended       finish                              abort_requested
  gating      time_limit             ended       finish                              time_limit
  submitting  submit_accepted        delivered   report_delivered,await_first_event  -
  submitting  submit_rejected        ended       finish                              submit_rejected
  submitting  submit_unclear         aborting    abort                               submit_unclear
  submitting  own_event              running     report_delivered                    -
  submitting  stream_lost            aborting    abort                               stream_lost
  submitting  end_overdue            aborting    abort                               end_overdue
  submitting  abort_requested        aborting    abort                               abort_requested
  submitting  time_limit             aborting    abort                               time_limit
  submitting  permission_unresolved  aborting    abort                               permission_unresolved
  submitting  provider_late          aborting    abort                               provider_late
  submitting  process_exited         proving     prove_delivery                      process_exited
  delivered   own_event              running     -                                   -
  delivered   native_end             verifying   verify                              native
  delivered   first_event_late       aborting    abort                               first_event_late
  delivered   end_overdue            aborting    abort                               end_overdue
  delivered   stream_lost            aborting    abort                               stream_lost
  delivered   abort_requested        aborting    abort                               abort_requested
  delivered   time_limit             aborting    abort                               time_limit
  delivered   permission_unresolved  aborting    abort                               permission_unresolved
  delivered   provider_late          aborting    abort                               provider_late
  delivered   process_exited         proving     prove_delivery                      process_exited
  running     native_end             verifying   verify                              native
  running     end_overdue            aborting    abort                               end_overdue
  running     stream_lost            aborting    abort                               stream_lost
  running     abort_requested        aborting    abort                               abort_requested
  running     time_limit             aborting    abort                               time_limit
  running     permission_unresolved  aborting    abort                               permission_unresolved
  running     provider_late          aborting    abort                               provider_late
  running     process_exited         ended       finish                              process_exited
  aborting    native_end             verifying   verify                              -
  aborting    native_quiet           ended       finish                              -
  aborting    proved_absent          ended       finish                              -
  aborting    proved_present         ended       finish                              -
  aborting    proof_unavailable      ended       finish                              -
  aborting    abort_late             killing     kill                                -
  aborting    process_exited         ended       finish                              -
  killing     kill_done              ended       finish                              -
  killing     kill_unconfirmed       ended       finish                              -
  proving     proved_absent          ended       finish                              -
  proving     proved_present         ended       finish                              -
  proving     proof_unavailable      ended       finish                              -
  verifying   verified               ended       finish                              -
  verifying   identity_changed       ended       finish                              -
  verifying   verify_unavailable     ended       finish                              -
`;

const WORLD = `own_event first_event_late native_end end_overdue stream_lost process_exited abort_requested
  time_limit permission_unresolved provider_late submit_accepted submit_rejected submit_unclear`;
const WORK = `prepared refused gate_passed gate_failed native_quiet abort_late kill_done kill_unconfirmed
  proved_absent proved_present proof_unavailable verified identity_changed verify_unavailable`;

// Every pair that may come and moves nothing; a pair of MOVES in the same state takes precedence.
const LATE: Record<TurnState, string> = {
  accepted: "",
  preparing: "stream_lost process_exited",
  gating: "",
  submitting: "",
  delivered: "submit_accepted submit_rejected submit_unclear",
  running: "own_event first_event_late submit_accepted submit_rejected submit_unclear",
  aborting: WORLD,
  killing: `${WORLD} ${WORK}`,
  proving: WORLD,
  verifying: `${WORLD} ${WORK}`,
  ended: `${WORLD} ${WORK}`,
};

interface ListedMove {
  to: string;
  effects: string[];
  cause: string | null;
}

const moves = new Map<string, ListedMove>();
for (const line of MOVES.trim().split("\n")) {
  const [state = "", event = "", to = "", effects = "", cause = ""] = line.trim().split(/\s+/);
  moves.set(`${state} ${event}`, {
    to,
    effects: effects === "-" ? [] : effects.split(","),
    cause: cause === "-" ? null : cause,
  });
}

const late = new Set<string>();
for (const [state, events] of Object.entries(LATE)) {
  for (const event of events.split(/\s+/)) {
    if (event !== "" && !moves.has(`${state} ${event}`)) late.add(`${state} ${event}`);
  }
}

/** A turn in this state, as a path that set no cause leaves it. */
function turnIn(state: TurnState): TurnMachine {
  return { ...NEW_TURN, state };
}

for (const state of TURN_STATES) {
  test(`a turn that is ${state} takes the listed events, and refuses every other by name`, () => {
    for (const event of TURN_EVENTS) {
      const turn = turnIn(state);
      const pair = `${state} ${event}`;
      const move = moves.get(pair);
      if (move !== undefined) {
        const next = transition(turn, event);
        expect(next.turn.state, pair).toBe(move.to);
        expect(next.effects, pair).toEqual(move.effects);
        expect(next.turn.cause, pair).toBe(move.cause);
        expect(next.isLate, pair).toBe(false);
      } else if (late.has(pair)) {
        expect(transition(turn, event), pair).toEqual({ turn, effects: [], isLate: true });
      } else {
        expect(() => transition(turn, event), pair).toThrowError(
          expect.objectContaining({
            code: "INTERNAL",
            message: `turn in state "${state}" can't take event "${event}"`,
          }),
        );
      }
    }
  });
}

test("the hand-written lists name states and events that exist, and nothing twice", () => {
  const states: readonly string[] = TURN_STATES;
  const events: readonly string[] = TURN_EVENTS;
  for (const pair of [...moves.keys(), ...late]) {
    const [state = "", event = ""] = pair.split(" ");
    expect(states).toContain(state);
    expect(events).toContain(event);
  }
  expect(moves.size).toBe(MOVES.trim().split("\n").length);
});

test("the first cause stays through every later one", () => {
  let turn: TurnMachine = { ...turnIn("running"), wasSubmitted: true };
  turn = transition(turn, "time_limit").turn;
  for (const event of ["stream_lost", "abort_requested", "permission_unresolved"] as const) {
    turn = transition(turn, event).turn;
  }
  turn = transition(turn, "native_end").turn;
  turn = transition(turn, "identity_changed").turn;
  expect(turn).toMatchObject({ state: "ended", cause: "time_limit", sawNativeEnd: true });
  const withCause: TurnMachine = { ...turnIn("running"), cause: "permission_unresolved" };
  expect(transition(withCause, "stream_lost").turn.cause).toBe("permission_unresolved");
  expect(transition(withCause, "native_end").turn.cause).toBe("permission_unresolved");
});

test("facts are taken from the events that carry them, and from no others", () => {
  const after = (state: TurnState, event: TurnEvent) => transition(turnIn(state), event).turn;
  expect(after("gating", "gate_passed").wasSubmitted).toBe(true);
  expect(after("preparing", "prepared").wasSubmitted).toBe(false);
  expect(after("running", "native_end").sawNativeEnd).toBe(true);
  expect(after("running", "process_exited").sawNativeEnd).toBe(false);
  for (const event of ["proved_absent", "proved_present", "proof_unavailable"] as const) {
    expect(after("proving", event).delivery).toBe(event);
  }
  for (const event of ["verified", "identity_changed", "verify_unavailable"] as const) {
    expect(after("verifying", event).identity).toBe(event);
  }
});

test("a native end that comes while the process is being killed is no seen end", () => {
  const turn = transition(transition(turnIn("aborting"), "abort_late").turn, "native_end").turn;
  expect(turn).toMatchObject({ state: "killing", sawNativeEnd: false });
});

const CAUSE_OF: Partial<Record<TurnEvent, TurnCause>> = {
  refused: "refused",
  gate_failed: "gate_failed",
  submit_rejected: "submit_rejected",
  submit_unclear: "submit_unclear",
  first_event_late: "first_event_late",
  end_overdue: "end_overdue",
  stream_lost: "stream_lost",
  process_exited: "process_exited",
  abort_requested: "abort_requested",
  time_limit: "time_limit",
  permission_unresolved: "permission_unresolved",
  provider_late: "provider_late",
  native_end: "native",
};

interface Walk {
  turn: TurnMachine;
  /** Events that moved the turn. */
  moved: TurnEvent[];
  effects: TurnEffect[];
  /** `event` before its effects, in one line of time. */
  line: string[];
  afterEnd: number;
}

/** Follows picks among the events that the table lists for the state at hand; late ones included. */
function walk(picks: readonly number[], onlyMoves: boolean): Walk {
  const seen: Walk = { turn: NEW_TURN, moved: [], effects: [], line: [], afterEnd: 0 };
  for (const pick of picks) {
    const row = TURN_TABLE[seen.turn.state];
    const listed = TURN_EVENTS.filter(
      (event) => row[event] !== undefined && !(onlyMoves && row[event] === "late"),
    );
    const event = listed[pick % listed.length];
    if (event === undefined) break;
    const next = transition(seen.turn, event);
    if (seen.turn.state === "ended" && (!next.isLate || next.turn !== seen.turn)) seen.afterEnd += 1;
    if (!next.isLate) seen.moved.push(event);
    seen.turn = next.turn;
    seen.effects.push(...next.effects);
    seen.line.push(event, ...next.effects.map((effect) => `>${effect}`));
  }
  return seen;
}

function times(effects: readonly TurnEffect[], effect: TurnEffect): number {
  return effects.filter((entry) => entry === effect).length;
}

function assertLaws({ turn, moved, effects, line, afterEnd }: Walk): void {
  expect(times(effects, "finish"), "one end").toBe(turn.state === "ended" ? 1 : 0);
  expect(afterEnd, "nothing after the end").toBe(0);
  expect(times(effects, "submit"), "law 3: one submission").toBeLessThanOrEqual(1);
  expect(times(effects, "abort"), "law 5: one abort").toBeLessThanOrEqual(1);
  expect(times(effects, "kill"), "one kill").toBeLessThanOrEqual(1);
  if (effects.includes("submit")) {
    expect(moved, "law 4: the gate").toContain("gate_passed");
    expect(line.indexOf(">submit"), "law 4: the gate first").toBeGreaterThan(line.indexOf("gate_passed"));
  }
  expect(turn.wasSubmitted, "what may be at the CLI is known").toBe(effects.includes("submit"));
  const firstCause = moved.map((event) => CAUSE_OF[event]).find((cause) => cause !== undefined);
  expect(turn.cause, "the first cause").toBe(firstCause ?? null);
  if (turn.state === "ended") expect(turn.cause, "an end has a cause").not.toBeNull();
}

test("the laws hold over any order of listed events", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 60 }), (picks) => assertLaws(walk(picks, false))),
    { numRuns: 3000 },
  );
});

test("every turn that is fed events that move it ends, within eight of them", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { minLength: 8, maxLength: 8 }), (picks) => {
      const seen = walk(picks, true);
      assertLaws(seen);
      expect(seen.turn.state).toBe("ended");
    }),
    { numRuns: 2000 },
  );
});

test("every path through the table, late events aside, keeps the laws", () => {
  let paths = 0;
  const follow = (seen: Walk): void => {
    const row = TURN_TABLE[seen.turn.state];
    const events = TURN_EVENTS.filter((event) => row[event] !== undefined && row[event] !== "late");
    if (events.length === 0) {
      paths += 1;
      assertLaws(seen);
      expect(seen.turn.state).toBe("ended");
    }
    for (const event of events) {
      const next = transition(seen.turn, event);
      follow({
        turn: next.turn,
        moved: [...seen.moved, event],
        effects: [...seen.effects, ...next.effects],
        line: [...seen.line, event, ...next.effects.map((effect) => `>${effect}`)],
        afterEnd: 0,
      });
    }
  };
  follow({ turn: NEW_TURN, moved: [], effects: [], line: [], afterEnd: 0 });
  expect(paths).toBeGreaterThan(100);
});
