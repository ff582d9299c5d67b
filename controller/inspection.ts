/**
 * What is known of a turn, from its record and its events alone: for whoever has to say what to do about an `unknown`
 * one. Pure; it asks nobody and concludes nothing.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { ControlEvent, NumberedEvent } from "../protocol/events.ts";
import type { CliName, TailReference } from "../protocol/locator.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { openRequests, type UserRequest } from "./open-requests.ts";
import type { ModelCall } from "./relay/model-call.ts";
import type { InspectionRow, MemberRow, TurnRow } from "./store/records.ts";

/** Length of an inspection note, UTF-8 bytes. Beyond: NOTE_INVALID, nothing stored. */
const NOTE_BYTES = 1024;

/** Calls to the model of one turn that an inspection names. */
export const CALLS_NAMED = 20;

/** The furthest step whose event came in, in this order. */
const REACHES = ["admitted", "accepted", "prepared", "gated", "submitting", "delivered"] as const;
export type Reach = (typeof REACHES)[number];

const REACH_OF: Partial<Record<ControlEvent["type"], Reach>> = {
  "turn.accepted": "accepted",
  "turn.context": "prepared",
  "turn.gated": "gated",
  "turn.submitting": "submitting",
  "turn.delivered": "delivered",
};

const MEANING: Readonly<Record<Reach, string>> = {
  admitted: "no word of the bridge about it has come in: it may have taken it, or never received it",
  accepted: "the bridge has it; no event shows that its text was handed to the CLI",
  prepared: "its CLI process was ready; no event shows that its text was handed to the CLI",
  gated: "its event stream was live; no event shows that its text was handed to the CLI",
  submitting: "its text was on the way to the CLI; nobody saw whether the CLI took it",
  delivered: "the CLI took its text; the model may have been asked, and tools may have run",
};

export interface TurnInspection {
  /** What was sent (number, digest, bytes), the state, and the settlement with its evidence. */
  turn: TurnRow;
  /** The member takes no turn before a note is recorded. */
  needsNote: boolean;
  inspection: InspectionRow | null;
  reach: Reach;
  /** The same in a sentence. */
  meaning: string;
  /** Tool calls that began and showed no result; what they did is nobody's to undo. `at` is when they were seen. */
  openTools: Array<{ session: string; call: string; tool: string; title: string; at: number }>;
  /** Permissions and questions that had no answer. */
  openRequests: UserRequest[];
  /** The newest of its calls to the model, newest first: with our own id of each, and the provider's, to ask it about them. */
  modelCalls: Array<
    Pick<
      ModelCall,
      "id" | "startedAt" | "path" | "status" | "outcome" | "answerId" | "providerRequestId" | "gatewayTraceId"
    >
  >;
  /** What the bridge said of the end after the record had ended without it. It changes nothing here. */
  lateEnd: Settlement | null;
  /** Where the native history is, and by which message the turn would be found in it. */
  native: {
    cli: CliName;
    /** Null while no session is known. */
    nativeId: string | null;
    /** The id that the turn's message was given; null when it came to none. */
    message: string | null;
    settledTurns: number;
    /** The last settled message; what stands behind it is the unknown turn's. */
    tail: TailReference | null;
  };
}

export function inspectTurn(facts: {
  turn: TurnRow;
  member: MemberRow;
  events: readonly NumberedEvent[];
  inspection: InspectionRow | null;
  /** Newest first. */
  calls: readonly ModelCall[];
}): TurnInspection {
  const { turn, member, events, inspection, calls } = facts;
  const locator = member.pending_locator ?? member.locator;
  const reach = reachOf(turn, events);
  return {
    turn,
    needsNote: turn.state === "unknown" && inspection === null,
    inspection,
    reach,
    meaning: MEANING[reach],
    openTools: openTools(events),
    openRequests: openRequests(events),
    modelCalls: calls.map(correlation),
    lateEnd: lastOf(events, "turn.ended")?.settlement ?? null,
    native: {
      cli: member.cli,
      nativeId: lastOf(events, "turn.context")?.nativeId ?? locator?.nativeId ?? null,
      message: lastOf(events, "turn.submitting")?.nativeMessage ?? null,
      settledTurns: member.settled_turns,
      tail: locator?.tail ?? null,
    },
  };
}

function correlation(call: ModelCall): TurnInspection["modelCalls"][number] {
  const { id, startedAt, path, status, outcome, answerId, providerRequestId, gatewayTraceId } = call;
  return { id, startedAt, path, status, outcome, answerId, providerRequestId, gatewayTraceId };
}

/** The note as it is. Throws NOTE_INVALID. */
export function checkNote(note: string): string {
  const bytes = Buffer.byteLength(note);
  if (bytes < 1 || bytes > NOTE_BYTES)
    throw new HoldfastError("NOTE_INVALID", `the note has ${bytes} bytes, 1 to ${NOTE_BYTES} are taken`);
  if (!note.isWellFormed()) throw new HoldfastError("NOTE_INVALID", "the note is not well-formed Unicode");
  return note;
}

function reachOf(turn: TurnRow, events: readonly NumberedEvent[]): Reach {
  const seen = events.map(({ event }) => REACHES.indexOf(REACH_OF[event.type] ?? "admitted"));
  // The record itself says when the delivery came in.
  if (turn.state === "delivered") return "delivered";
  return REACHES[Math.max(0, ...seen)] ?? "admitted";
}

function openTools(events: readonly NumberedEvent[]): TurnInspection["openTools"] {
  const open = new Map<string, TurnInspection["openTools"][number]>();
  for (const { at, event } of events) {
    if (event.type !== "turn.tool") continue;
    const { session, call, tool, title, status } = event;
    const key = `${session} ${call}`;
    if (status === "running") open.set(key, { session, call, tool, title, at: open.get(key)?.at ?? at });
    else open.delete(key);
  }
  return [...open.values()];
}

function lastOf<T extends ControlEvent["type"]>(
  events: readonly NumberedEvent[],
  type: T,
): Extract<ControlEvent, { type: T }> | null {
  const found = events.findLast(({ event }) => event.type === type)?.event ?? null;
  return found as Extract<ControlEvent, { type: T }> | null;
}
