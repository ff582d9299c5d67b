/** What a journal says, folded from its records. Pure; `journal.ts` holds one of these and keeps it current. */
import type { EarlierEnd } from "../protocol/attestation.ts";
import type { ControlEvent, NumberedEvent } from "../protocol/events.ts";
import type { JournalRecord } from "./journal-record.ts";

/** A turn as far as the journal knows it. */
export interface JournaledTurn {
  turn: string;
  member: string;
  number: number;
  /** Bytes of the prompt may have gone out. */
  wasSubmitting: boolean;
  wasDelivered: boolean;
  /** The session that it runs in, and the id of its message there; null before they are known. */
  nativeId: string | null;
  nativeMessage: string | null;
}

export interface JournalState {
  journalId: string;
  epoch: number;
  /** The last life wrote its mark of a clean stop; nothing was written behind it. */
  isStopped: boolean;
  /** How the life before this one ended: read from its mark when this one began. */
  earlierEnd: EarlierEnd;
  /** Last sequence number given. */
  head: number;
  acked: number;
  fence: number;
  /** Events that the controller may not have yet, in order, without gaps. */
  unacked: NumberedEvent[];
  /** Highest accepted turn number a member; remembered beyond acknowledgement. */
  numbers: Map<string, number>;
  /** Turns that were accepted and have not ended. */
  open: Map<string, JournaledTurn>;
  /** Turns that ended or were vetoed, newest last, bounded. */
  closed: Map<string, "ended" | "vetoed">;
}

/** Closed turns remembered for recovery questions. Older ones answer `forgotten`; the controller asked long ago. */
export const CLOSED_TURNS_KEPT = 4096;

export function emptyState(journalId: string): JournalState {
  return {
    journalId,
    epoch: 0,
    isStopped: false,
    earlierEnd: "none",
    head: 0,
    acked: 0,
    fence: 0,
    unacked: [],
    numbers: new Map(),
    open: new Map(),
    closed: new Map(),
  };
}

/** Folds one record into the state, in place. Throws a RangeError on a gap: a numbered event is never skipped. */
export function applyRecord(state: JournalState, record: JournalRecord): void {
  switch (record.t) {
    case "journal":
      state.journalId = record.journalId;
      state.head = record.seq;
      state.acked = record.acked;
      state.epoch = record.epoch;
      state.fence = record.fence;
      return;
    case "life":
      if (state.epoch > 0) state.earlierEnd = state.isStopped ? "clean" : "unclean";
      state.epoch = record.epoch;
      state.isStopped = false;
      return;
    case "stopped":
      state.isStopped = true;
      return;
    case "fence":
      state.fence = Math.max(state.fence, record.fence);
      return;
    case "number":
      noteNumber(state, record.member, record.number);
      return;
    case "closed":
      close(state, record.turn, record.how);
      return;
    case "open": {
      const { t: _, ...turn } = record;
      state.open.set(turn.turn, turn);
      return;
    }
    case "acked":
      acknowledge(state, record.seq);
      return;
    case "event":
      if (record.entry.seq !== state.head + 1) throw new RangeError(`gap before event ${record.entry.seq}`);
      state.head = record.entry.seq;
      state.unacked.push(record.entry);
      noteEvent(state, record.entry.event);
      return;
    default: {
      const never: never = record;
      throw new TypeError(`record ${String(never)} is not handled`);
    }
  }
}

function acknowledge(state: JournalState, seq: number): void {
  if (seq <= state.acked) return;
  state.acked = Math.min(seq, state.head);
  const keep = state.unacked.findIndex((entry) => entry.seq > state.acked);
  state.unacked.splice(0, keep === -1 ? state.unacked.length : keep);
}

function noteNumber(state: JournalState, member: string, number: number): void {
  state.numbers.set(member, Math.max(state.numbers.get(member) ?? 0, number));
}

/** What an event says about its turn; most say nothing that must outlive them. */
function noteEvent(state: JournalState, event: ControlEvent): void {
  if (event.type === "turn.accepted") {
    const { turn, member, number } = event;
    noteNumber(state, member, number);
    const start = { wasSubmitting: false, wasDelivered: false, nativeId: null, nativeMessage: null };
    state.open.set(turn, { turn, member, number, ...start });
  } else if (
    event.type === "turn.context" ||
    event.type === "turn.submitting" ||
    event.type === "turn.delivered"
  ) {
    const turn = state.open.get(event.turn);
    if (turn !== undefined) noteProgress(turn, event);
  } else if (event.type === "turn.ended") {
    close(state, event.turn, "ended");
  } else if (event.type === "turn.vetoed") {
    close(state, event.turn, "vetoed");
  }
}

function noteProgress(
  turn: JournaledTurn,
  event: Extract<ControlEvent, { type: "turn.context" | "turn.submitting" | "turn.delivered" }>,
): void {
  if (event.type === "turn.context") turn.nativeId = event.nativeId;
  else if (event.type === "turn.delivered") turn.wasDelivered = true;
  else {
    turn.wasSubmitting = true;
    turn.nativeMessage = event.nativeMessage;
  }
}

function close(state: JournalState, turn: string, how: "ended" | "vetoed"): void {
  state.open.delete(turn);
  state.closed.delete(turn);
  state.closed.set(turn, how);
  if (state.closed.size > CLOSED_TURNS_KEPT) {
    const [oldest] = state.closed.keys();
    if (oldest !== undefined) state.closed.delete(oldest);
  }
}

/** The records of a fresh file that says the same. Turns before the events: these tell again how far they came. */
export function compactRecords(state: JournalState): JournalRecord[] {
  return [
    {
      t: "journal",
      journalId: state.journalId,
      seq: state.acked,
      acked: state.acked,
      epoch: state.epoch,
      fence: state.fence,
    },
    ...[...state.numbers].map(([member, number]) => ({ t: "number" as const, member, number })),
    ...[...state.closed].map(([turn, how]) => ({ t: "closed" as const, turn, how })),
    ...[...state.open.values()].map((turn) => ({ t: "open" as const, ...turn })),
    ...state.unacked.map((entry) => ({ t: "event" as const, entry })),
  ];
}

/**
 * What of a damaged journal still holds in the one that follows it: the highest fence, the accepted numbers and the
 * closed turns. Each of them can only make us refuse more. Everything else is gone: the new journal has another id.
 */
export function salvage(state: JournalState, records: readonly JournalRecord[]): void {
  for (const record of records) {
    if (record.t === "journal") state.fence = Math.max(state.fence, record.fence);
    else if (record.t === "open") noteNumber(state, record.member, record.number);
    else if (record.t === "event") salvageEvent(state, record.entry.event);
    else if (record.t === "fence" || record.t === "number" || record.t === "closed")
      applyRecord(state, record);
  }
}

function salvageEvent(state: JournalState, event: ControlEvent): void {
  if (event.type === "turn.accepted") noteNumber(state, event.member, event.number);
  else if (event.type === "turn.ended" || event.type === "turn.vetoed") noteEvent(state, event);
}
