/**
 * The record of one call of a model through the relay: who made it, when, how it went, what it used. No text of a request
 * or an answer, no header, no address, no key. Written once, when the call has ended, and never changed.
 */
import * as z from "zod/mini";
import { Count, Digest, Instant, NativeId, OurId } from "../../protocol/ids.ts";
import { ModelProtocol } from "../../protocol/model-protocol.ts";
import { CallUsage } from "./call-usage.ts";
import { PrefixVerdict } from "./prefix-verdict.ts";

export const CALL_OUTCOMES = [
  "completed", // the answer passed to the client to its end, whatever its status
  "refused", // by the relay itself: nothing was sent
  "unreachable", // the provider gave no answer
  "cut", // the provider's answer broke off
  "cancelled", // the client went away; what came within the drain was still read
  "revoked", // its token was revoked, and everything ended at once
  "limit_passed", // a limit of the relay ended it
] as const;
export type CallOutcome = (typeof CALL_OUTCOMES)[number];

const Short = z.string().check(z.maxLength(200));
const Duration = z.nullable(z.number().check(z.nonnegative()));
/** As `provider-id.ts` lets pass. */
const Id = z.nullable(z.string().check(z.maxLength(128)));

export const ModelCall = z.object({
  /** Our own, a random UUID: one a call. */
  id: OurId,
  sandbox: OurId,
  /** Null for a call that named none: its token was missing, foreign or revoked. */
  member: z.nullable(OurId),
  /** The member's active turn; null: the CLI made the call by itself (unrequested). */
  turn: z.nullable(OurId),
  /** Of the CLI's process, by its token; null when that is not known. */
  processGeneration: z.nullable(Count),
  /** The member's native session as the host knows it; null before that. */
  nativeId: z.nullable(NativeId),
  protocol: ModelProtocol,
  /** Name of the route; null for a refused call that had none. */
  route: z.nullable(Short),
  /** Below the base URL, without its query. */
  path: Short,
  /** `generate` alone makes an answer, and states usage. */
  purpose: z.enum(["generate", "count_tokens", "other"]),
  /** As the request names it; null when the request could not be read. */
  model: z.nullable(Short),
  startedAt: Instant,
  /** From the whole request's arrival here to the answer's first byte; null when none came. */
  firstByteMs: Duration,
  totalMs: z.number().check(z.nonnegative()),
  /** Of the provider's answer; of our own for a refused call; null when there was none. */
  status: z.nullable(Count),
  outcome: z.enum(CALL_OUTCOMES),
  requestBytes: Count,
  /** Of the answer's body, as it came from the provider. */
  responseBytes: Count,
  /** Of the request's body as it came; null when it was over the limit of what is kept for that. */
  requestSha256: z.nullable(Digest),
  /** The answer's own id (`resp_…`, `chatcmpl-…`, `msg_…`). */
  answerId: Id,
  /** Of the answer's headers: `x-request-id` or `request-id`, and `x-cpa-trace-id`. */
  providerRequestId: Id,
  gatewayTraceId: Id,
  /** The model that the answer names. */
  answerModel: z.nullable(Short),
  stopReason: Id,
  /** Whether the answer came to its own end, and whether a statement of usage came at all. */
  isTerminal: z.boolean(),
  usageObserved: z.boolean(),
  usage: CallUsage,
  /** Against the request before it in its chain; null when there is nothing to compare. */
  prefix: z.nullable(PrefixVerdict),
});
export type ModelCall = z.infer<typeof ModelCall>;

/** What a call is for, by its path below the base URL. */
export function purposeOf(protocol: ModelProtocol, method: string, path: string): ModelCall["purpose"] {
  if (method !== "POST") return "other";
  const plain = path.replace(/\?.*$/s, "").replace(/\/+$/, "");
  switch (protocol) {
    case "chat-completions":
      return plain === "/chat/completions" ? "generate" : "other";
    case "responses":
      return plain === "/responses" || plain === "/responses/compact" ? "generate" : "other";
    case "messages":
      if (plain === "/messages/count_tokens") return "count_tokens";
      return plain === "/messages" ? "generate" : "other";
  }
}

/**
 * Whether figures are due: a model was asked to answer, and nothing proves that it did not. The relay's own refusals and a
 * provider's orderly refusal (400 to 499) prove it; a provider's fault (500 and above) does not.
 */
export function isUsageDue(call: Pick<ModelCall, "purpose" | "outcome" | "status">): boolean {
  if (call.purpose !== "generate" || call.outcome === "refused") return false;
  return call.status === null || call.status < 400 || call.status >= 500;
}
