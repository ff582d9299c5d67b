/**
 * Control events: numbered without gaps, journaled by the bridge, acknowledged, effective once.
 *
 * Each is one object with its `type`, the member it concerns and its own fields. Deltas of text are not here: they are
 * frames of their own (`frame.ts`) and are replaced by a snapshot after a reconnect.
 */
import * as z from "zod/mini";
import { Evidence } from "./evidence.ts";
import { Count, Instant, NativeId, OurId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { PermissionReply, PermissionRequest } from "./permission.ts";
import { PermissionAction } from "./permission-policy.ts";
import { Ancestry, DecidedBy, QuestionRequest, RequestClosing } from "./question.ts";
import { ContextStatus, Settlement } from "./settlement.ts";

const Reason = z.string().check(z.maxLength(LIMITS.reasonChars));
const ofTurn = { member: OurId, turn: OurId };

export const ControlEvent = z.discriminatedUnion("type", [
  /** Durable in the bridge's journal; nothing was done yet. */
  z.object({ type: z.literal("turn.accepted"), ...ofTurn, number: Count }),
  /** The context this turn has, decided before anything is sent. */
  z.object({
    type: z.literal("turn.context"),
    ...ofTurn,
    status: ContextStatus,
    reason: Reason,
    nativeId: z.nullable(NativeId),
  }),
  /** The gate was passed: the canary of this turn came back. */
  z.object({ type: z.literal("turn.gated"), ...ofTurn, evidence: Evidence }),
  /** From here on bytes of the prompt may be at the CLI. Durable before the first of them. */
  z.object({ type: z.literal("turn.submitting"), ...ofTurn, nativeMessage: NativeId }),
  z.object({ type: z.literal("turn.delivered"), ...ofTurn }),
  /** The CLI waits for its provider: a retry, with the provider's message. */
  z.object({
    type: z.literal("turn.waiting"),
    ...ofTurn,
    reason: Reason,
    attempt: Count,
    nextAt: z.nullable(Instant),
  }),
  z.object({
    type: z.literal("turn.tool"),
    ...ofTurn,
    session: NativeId,
    call: NativeId,
    tool: z.string().check(z.maxLength(128)),
    status: z.enum(["running", "completed", "failed"]),
    title: Reason,
  }),
  /** `action` is what the member's policy says; with `ask` the user has until `deadlineAt`. */
  z.object({
    type: z.literal("turn.permission_asked"),
    ...ofTurn,
    request: PermissionRequest,
    ancestry: Ancestry,
    action: PermissionAction,
    deadlineAt: z.nullable(Instant),
  }),
  /** `confirmed`: the CLI itself showed that the reply took effect. */
  z.object({
    type: z.literal("turn.permission_closed"),
    ...ofTurn,
    request: NativeId,
    session: NativeId,
    result: RequestClosing,
    reply: z.nullable(PermissionReply),
    by: DecidedBy,
    detail: Reason,
  }),
  z.object({
    type: z.literal("turn.question_asked"),
    ...ofTurn,
    question: QuestionRequest,
    deadlineAt: Instant,
  }),
  z.object({
    type: z.literal("turn.question_closed"),
    ...ofTurn,
    request: NativeId,
    session: NativeId,
    result: RequestClosing,
    reply: z.nullable(z.enum(["answered", "rejected"])),
    by: DecidedBy,
    detail: Reason,
  }),
  /** The one report of a turn. */
  z.object({ type: z.literal("turn.ended"), ...ofTurn, number: Count, settlement: Settlement }),
  /** Declared never received: this id can't be sent any more. */
  z.object({ type: z.literal("turn.vetoed"), ...ofTurn }),
  z.object({
    type: z.literal("member.process"),
    member: OurId,
    processGeneration: Count,
    state: z.enum(["started", "ready", "exited", "retired"]),
    detail: Reason,
  }),
  z.object({
    type: z.literal("member.subscription"),
    member: OurId,
    subscription: Count,
    state: z.enum(["live", "lost", "closed"]),
    detail: Reason,
  }),
  /** The CLI does something by itself, with no turn of ours: it is never part of a turn that has ended. */
  z.object({
    type: z.literal("member.unrequested"),
    member: OurId,
    session: NativeId,
    state: z.enum(["started", "ended"]),
    detail: Reason,
  }),
]);
export type ControlEvent = z.infer<typeof ControlEvent>;

/** A control event with its place in the journal. */
export const NumberedEvent = z.object({ seq: Count, at: Instant, event: ControlEvent });
export type NumberedEvent = z.infer<typeof NumberedEvent>;
