/** The verdict over a turn: how it ended for us, whether that is settled natively, and what shows it. */
import * as z from "zod/mini";
import { clip, type HoldfastError, toWireError, WireError } from "./errors.ts";
import { Evidence } from "./evidence.ts";
import { Count, NativeId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { TailReference } from "./locator.ts";
import type { TurnMachine } from "./turn-state.ts";
import { NO_USAGE, Usage } from "./usage.ts";

export const OUTCOMES = [
  "completed", // the native turn ended well, verified
  "failed", // it ended with an error, or was ended because it could not go on
  "aborted", // somebody asked for its end
  "stream_lost", // its event stream was lost; aborted once
  "refused", // nothing was sent, on purpose: the reason says why (LOST among them)
  "not_sent", // nothing reached the CLI; it may be submitted again
  "unknown", // nobody can prove how it ended
] as const;
export const Outcome = z.enum(OUTCOMES);
export type Outcome = z.infer<typeof Outcome>;

export const ContextStatus = z.enum(["NEW", "LIVE", "RESTORED", "LOST"]);
export type ContextStatus = z.infer<typeof ContextStatus>;

const Stage = z.nullable(z.number().check(z.nonnegative()));

/** Milliseconds from one stage to the next; null when the turn did not pass it. */
export const Timings = z.object({
  /** From the bridge's receipt to its journal's sync. */
  admitMs: Stage,
  /** Starting or resuming a process; near 0 for a resident one. */
  prepareMs: Stage,
  gateMs: Stage,
  submitMs: Stage,
  firstEventMs: Stage,
  settleMs: Stage,
  verifyMs: Stage,
  totalMs: Stage,
});
export type Timings = z.infer<typeof Timings>;

/** The native session of a turn as seen at its settlement. */
export const SettledSession = z.object({
  nativeId: NativeId,
  /** Canonical working directory of the session, inside the sandbox. */
  directory: z.string().check(z.regex(/^\//), z.maxLength(1024)),
  tail: z.nullable(TailReference),
  /** The id was verified after the native end. If not, it is verified before the next turn, and only then saved. */
  isVerified: z.boolean(),
});
export type SettledSession = z.infer<typeof SettledSession>;

export const Settlement = z.object({
  outcome: Outcome,
  /** The native turn verifiably ended. A cancel, a timeout or a dead transport alone settles nothing. */
  settled: z.boolean(),
  context: z.nullable(ContextStatus),
  contextReason: z.string().check(z.maxLength(LIMITS.reasonChars)),
  /** The native session that took the turn; null when no session was open. */
  session: z.nullable(SettledSession),
  processGeneration: z.nullable(Count),
  /** The root's assistant text of this turn: every part once, in order, nothing added between them. */
  parts: z.array(z.string().check(z.maxLength(LIMITS.outputChars))),
  textIsCut: z.boolean(),
  /** The parts are what had arrived when the turn was ended early. */
  textIsPartial: z.boolean(),
  usage: Usage,
  evidence: z.array(Evidence),
  timings: Timings,
  error: z.nullable(WireError),
  /** The member's process may take the next turn: native end verified, cleaned up, transport and locator usable. */
  keepsProcess: z.boolean(),
});
export type Settlement = z.infer<typeof Settlement>;

/** The settlement of a turn whose end nobody saw, or which never began: by whoever concludes it, from what is known. */
export function unseenSettlement(options: {
  outcome: Extract<Outcome, "not_sent" | "refused" | "unknown">;
  error: HoldfastError;
  /** The one observation that it rests on. */
  evidence: Pick<Evidence, "what" | "source" | "at" | "detail">;
  context?: { status: ContextStatus; reason: string };
}): Settlement {
  const { outcome, error, evidence, context } = options;
  return {
    outcome,
    settled: false,
    context: context?.status ?? null,
    contextReason: clip(context?.reason ?? ""),
    session: null,
    processGeneration: null,
    parts: [],
    textIsCut: false,
    textIsPartial: outcome === "unknown",
    usage: NO_USAGE,
    evidence: [
      {
        ...evidence,
        detail: clip(evidence.detail),
        processGeneration: null,
        subscription: null,
        sequence: null,
      },
    ],
    timings: {
      admitMs: null,
      prepareMs: null,
      gateMs: null,
      submitMs: null,
      firstEventMs: null,
      settleMs: null,
      verifyMs: null,
      totalMs: null,
    },
    error: toWireError(error),
    keepsProcess: false,
  };
}

/** How the CLI itself said that the turn ended. */
export type NativeStatus = "completed" | "failed" | "aborted";

/**
 * Outcome and settledness, from the machine alone.
 * @param native what the CLI said, when its end was seen
 */
export function concludeTurn(
  turn: TurnMachine,
  native: NativeStatus | null,
): { outcome: Outcome; settled: boolean } {
  const settled = turn.sawNativeEnd;
  // The intent to submit was durable, and then nothing went out: as if it had never been there.
  const mayBeSent = turn.wasSubmitted && turn.delivery !== "proved_absent";
  if (turn.identity === "identity_changed") return { outcome: "failed", settled };
  switch (turn.cause) {
    case "native":
      return { outcome: native ?? "unknown", settled };
    case "refused":
      return { outcome: "refused", settled: false };
    case "abort_requested":
      return { outcome: mayBeSent ? "aborted" : "not_sent", settled };
    case "gate_failed":
    case "submit_rejected":
      return { outcome: "not_sent", settled: false };
    case "stream_lost":
      return { outcome: mayBeSent ? "stream_lost" : "not_sent", settled };
    case "submit_unclear":
      if (settled) return { outcome: "failed", settled };
      return { outcome: turn.delivery === "proved_absent" ? "not_sent" : "unknown", settled: false };
    case "process_exited":
      if (!mayBeSent) return { outcome: "not_sent", settled: false };
      return { outcome: turn.delivery === null ? "failed" : "unknown", settled };
    case "first_event_late":
    case "end_overdue":
    case "permission_unresolved":
    case "provider_late":
      return { outcome: "failed", settled };
    case "time_limit":
      return { outcome: mayBeSent ? "failed" : "not_sent", settled };
    case null:
      return { outcome: "unknown", settled: false };
    default: {
      const never: never = turn.cause;
      throw new TypeError(`cause ${String(never)} is not handled`);
    }
  }
}
