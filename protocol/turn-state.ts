/**
 * All that can happen to a turn inside the bridge: a table and a pure transition.
 *
 *   accepted ─▶ preparing ─▶ gating ─▶ submitting ─▶ delivered ─▶ running ─▶ verifying ─▶ ended
 *                                          │             │           │
 *                                          └─────────────┴───────────┴─▶ aborting ─▶ killing
 *                                          (process died: proving, whether the prompt was taken)
 *
 * The shell (`bridge/turn-runner.ts`) performs the effects and feeds back events. The first cause wins: once a cause
 * is set, later ones are kept as evidence by the shell and change nothing here. The host's own record of a turn has
 * fewer states: `record-state.ts`.
 */
import { HoldfastError } from "./errors.ts";

/** Where a turn is. Each line says what leads into it. */
export const TURN_STATES = [
  "accepted", // the bridge has journaled it; nothing was done yet
  "preparing", // begin: a process is started or found, the session opened, or resumed and proven
  "gating", // prepared: a canary is out on the current subscription
  "submitting", // gate passed: from here on bytes of the prompt may be at the CLI
  "delivered", // the CLI took the prompt; no own event was seen yet
  "running", // the turn's own event was seen
  "aborting", // something ended it early: one native abort is out and its effect is awaited
  "killing", // the abort had no effect in time: the process is being ended
  "proving", // the process died around the submission: was the prompt taken?
  "verifying", // the native end was seen: identity and tail are being verified
  "ended", // the outcome is decided; nothing changes it any more
] as const;
export type TurnState = (typeof TURN_STATES)[number];

/** What happened, as data. */
export const TURN_EVENTS = [
  "begin",
  "prepared",
  "refused", // preparation ended in a typed refusal: LOST, or an error that keeps the locator
  "gate_passed",
  "gate_failed",
  "submit_accepted",
  "submit_rejected", // the CLI said no before anything could run
  "submit_unclear", // the connection failed in between
  "own_event", // first event of this very turn on the stream
  "first_event_late",
  "native_end", // the checked rule of the driver holds
  "end_overdue", // the CLI reported an error or a provisional end, and no final one in time
  "stream_lost",
  "process_exited",
  "abort_requested",
  "time_limit",
  "permission_unresolved",
  "provider_late", // it waited for its provider longer than its limit
  "native_quiet", // after an abort: the CLI says that nothing runs, but the end itself was not seen
  "abort_late", // the abort had no effect in time
  "kill_done", // the process and its descendants are gone, checked
  "kill_unconfirmed",
  "proved_absent", // the prompt is not in the CLI's history
  "proved_present",
  "proof_unavailable",
  "verified",
  "identity_changed",
  "verify_unavailable",
] as const;
export type TurnEvent = (typeof TURN_EVENTS)[number];

/** Why a turn ended. `native` is the CLI's own end; each other cause ended it early. */
export type TurnCause =
  | "native"
  | "refused"
  | "gate_failed"
  | "submit_rejected"
  | "submit_unclear"
  | "first_event_late"
  | "end_overdue"
  | "stream_lost"
  | "process_exited"
  | "abort_requested"
  | "time_limit"
  | "permission_unresolved"
  | "provider_late";

/** What the shell must do now. */
export type TurnEffect =
  | "prepare"
  | "cancel_preparation"
  | "gate"
  | "submit"
  | "report_delivered"
  | "await_first_event"
  | "abort"
  | "kill"
  | "prove_delivery"
  | "verify"
  | "finish";

interface Move {
  readonly to: TurnState;
  readonly effects: readonly TurnEffect[];
  /** Set when no cause is set yet. */
  readonly cause?: TurnCause;
}

/** `late`: the event may come, is recorded by the shell, and moves nothing. A pair that is not listed is refused. */
type Row = Partial<Record<TurnEvent, Move | "late">>;

const end = (cause: TurnCause): Move => ({ to: "ended", effects: ["finish"], cause });
const abort = (cause: TurnCause): Move => ({ to: "aborting", effects: ["abort"], cause });
const done: Move = { to: "ended", effects: ["finish"] };

/** Events of the world that can reach a turn at any time after it left their states. */
const LATE_WORLD: Row = {
  own_event: "late",
  first_event_late: "late",
  native_end: "late",
  end_overdue: "late",
  stream_lost: "late",
  process_exited: "late",
  abort_requested: "late",
  time_limit: "late",
  permission_unresolved: "late",
  provider_late: "late",
  submit_accepted: "late",
  submit_rejected: "late",
  submit_unclear: "late",
};

/** Ends of the work that a shell had under way when the turn moved on without it. */
const LATE_WORK: Row = {
  prepared: "late",
  refused: "late",
  gate_passed: "late",
  gate_failed: "late",
  native_quiet: "late",
  abort_late: "late",
  kill_done: "late",
  kill_unconfirmed: "late",
  proved_absent: "late",
  proved_present: "late",
  proof_unavailable: "late",
  verified: "late",
  identity_changed: "late",
  verify_unavailable: "late",
};

export const TURN_TABLE: Readonly<Record<TurnState, Row>> = {
  accepted: {
    begin: { to: "preparing", effects: ["prepare"] },
    abort_requested: end("abort_requested"),
  },
  preparing: {
    prepared: { to: "gating", effects: ["gate"] },
    refused: end("refused"),
    abort_requested: { to: "ended", effects: ["cancel_preparation", "finish"], cause: "abort_requested" },
    time_limit: { to: "ended", effects: ["cancel_preparation", "finish"], cause: "time_limit" },
    // The preparation itself reports these as its result.
    stream_lost: "late",
    process_exited: "late",
  },
  gating: {
    gate_passed: { to: "submitting", effects: ["submit"] },
    gate_failed: end("gate_failed"),
    stream_lost: end("stream_lost"),
    process_exited: end("process_exited"),
    abort_requested: end("abort_requested"),
    time_limit: end("time_limit"),
  },
  submitting: {
    submit_accepted: { to: "delivered", effects: ["report_delivered", "await_first_event"] },
    submit_rejected: end("submit_rejected"),
    submit_unclear: abort("submit_unclear"),
    own_event: { to: "running", effects: ["report_delivered"] },
    stream_lost: abort("stream_lost"),
    end_overdue: abort("end_overdue"),
    abort_requested: abort("abort_requested"),
    time_limit: abort("time_limit"),
    permission_unresolved: abort("permission_unresolved"),
    provider_late: abort("provider_late"),
    process_exited: { to: "proving", effects: ["prove_delivery"], cause: "process_exited" },
  },
  delivered: {
    own_event: { to: "running", effects: [] },
    native_end: { to: "verifying", effects: ["verify"], cause: "native" },
    first_event_late: abort("first_event_late"),
    end_overdue: abort("end_overdue"),
    stream_lost: abort("stream_lost"),
    abort_requested: abort("abort_requested"),
    time_limit: abort("time_limit"),
    permission_unresolved: abort("permission_unresolved"),
    provider_late: abort("provider_late"),
    process_exited: { to: "proving", effects: ["prove_delivery"], cause: "process_exited" },
    submit_accepted: "late",
    submit_rejected: "late",
    submit_unclear: "late",
  },
  running: {
    native_end: { to: "verifying", effects: ["verify"], cause: "native" },
    end_overdue: abort("end_overdue"),
    stream_lost: abort("stream_lost"),
    abort_requested: abort("abort_requested"),
    time_limit: abort("time_limit"),
    permission_unresolved: abort("permission_unresolved"),
    provider_late: abort("provider_late"),
    process_exited: end("process_exited"),
    own_event: "late",
    first_event_late: "late",
    // Its own event has already proven that the prompt was taken.
    submit_accepted: "late",
    submit_rejected: "late",
    submit_unclear: "late",
  },
  aborting: {
    ...LATE_WORLD,
    native_end: { to: "verifying", effects: ["verify"] },
    native_quiet: done,
    proved_absent: done,
    proved_present: done,
    proof_unavailable: done,
    abort_late: { to: "killing", effects: ["kill"] },
    process_exited: done,
  },
  killing: { ...LATE_WORLD, ...LATE_WORK, kill_done: done, kill_unconfirmed: done },
  proving: { ...LATE_WORLD, proved_absent: done, proved_present: done, proof_unavailable: done },
  verifying: {
    ...LATE_WORLD,
    ...LATE_WORK,
    verified: done,
    identity_changed: done,
    verify_unavailable: done,
  },
  ended: { ...LATE_WORLD, ...LATE_WORK },
};

/** A turn as the machine sees it. */
export interface TurnMachine {
  readonly state: TurnState;
  /** The first cause; null while the turn goes its ordinary way. */
  readonly cause: TurnCause | null;
  /** Bytes of the prompt may be at the CLI. */
  readonly wasSubmitted: boolean;
  /** The checked native end was seen. */
  readonly sawNativeEnd: boolean;
  /** The last of `verified`, `identity_changed`, `verify_unavailable`, or null. */
  readonly identity: "verified" | "identity_changed" | "verify_unavailable" | null;
  /** What the proof of a delivery said, or null when none was asked for. */
  readonly delivery: "proved_absent" | "proved_present" | "proof_unavailable" | null;
}

export const NEW_TURN: TurnMachine = {
  state: "accepted",
  cause: null,
  wasSubmitted: false,
  sawNativeEnd: false,
  identity: null,
  delivery: null,
};

/**
 * The next state and what to do. Throws a typed error that names both for a pair the table does not list: that is a
 * fault of the shell, not of the world.
 */
export function transition(
  turn: TurnMachine,
  event: TurnEvent,
): { turn: TurnMachine; effects: readonly TurnEffect[]; isLate: boolean } {
  const move = TURN_TABLE[turn.state][event];
  if (move === undefined) {
    throw new HoldfastError("INTERNAL", `turn in state "${turn.state}" can't take event "${event}"`);
  }
  if (move === "late") return { turn, effects: [], isLate: true };
  return {
    turn: {
      state: move.to,
      cause: turn.cause ?? move.cause ?? null,
      wasSubmitted: turn.wasSubmitted || move.to === "submitting",
      sawNativeEnd: turn.sawNativeEnd || event === "native_end",
      identity:
        event === "verified" || event === "identity_changed" || event === "verify_unavailable"
          ? event
          : turn.identity,
      delivery:
        event === "proved_absent" || event === "proved_present" || event === "proof_unavailable"
          ? event
          : turn.delivery,
    },
    effects: move.effects,
    isLate: false,
  };
}
