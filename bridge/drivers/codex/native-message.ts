/**
 * What is read of codex's JSON lines (`codex app-server` 0.171.0; its own `generate-ts` names every field). Lenient:
 * what is not needed is not looked at, and a kind that is not known is none of ours.
 *
 *   {"id":3,"result":{…}}                              answer to a request of ours
 *   {"id":3,"error":{"code":-32600,"message":"…"}}     refusal
 *   {"id":0,"method":"item/…/requestApproval",…}       request of codex's, in an id space of its own
 *   {"method":"turn/completed","params":{…}}           notification
 */
import * as z from "zod/mini";
import { NativeId } from "../../../protocol/ids.ts";

/** Ids of codex's own requests are numbers from 0; the protocol allows texts as well. */
const RequestId = z.union([z.number(), z.string()]);
export type RequestId = z.infer<typeof RequestId>;

const Answer = z.object({ id: z.number(), result: z.unknown() });
const Refusal = z.object({ id: z.number(), error: z.object({ code: z.number(), message: z.string() }) });
const Request = z.object({ id: RequestId, method: z.string(), params: z.unknown() });
const Notification = z.object({ method: z.string(), params: z.unknown() });

export type NativeRequest = z.infer<typeof Request>;

export type NativeMessage =
  | { kind: "result"; id: number; result: unknown }
  | { kind: "refused"; id: number; code: number; message: string }
  | { kind: "request"; request: NativeRequest }
  | { kind: "event"; event: NativeEvent };

const TurnError = z.object({
  message: z.string(),
  /** A word, or an object with one key that is the word. */
  codexErrorInfo: z.optional(z.nullable(z.union([z.string(), z.record(z.string(), z.unknown())]))),
  additionalDetails: z.optional(z.nullable(z.string())),
});
export type TurnError = z.infer<typeof TurnError>;

const Item = z.object({
  type: z.string(),
  id: z.string(),
  status: z.optional(z.nullable(z.string())),
  text: z.optional(z.nullable(z.string())),
  /** Of the user's message: the id that we gave it. */
  clientId: z.optional(z.nullable(z.string())),
  command: z.optional(z.nullable(z.string())),
  changes: z.optional(
    z.array(
      z.object({
        path: z.string(),
        kind: z.optional(z.object({ move_path: z.optional(z.nullable(z.string())) })),
      }),
    ),
  ),
  server: z.optional(z.nullable(z.string())),
  namespace: z.optional(z.nullable(z.string())),
  tool: z.optional(z.nullable(z.string())),
  receiverThreadIds: z.optional(z.array(z.string())),
  prompt: z.optional(z.nullable(z.string())),
  /** Of a subagent of the newest models: what is done with it. */
  kind: z.optional(z.nullable(z.string())),
  agentThreadId: z.optional(z.nullable(z.string())),
  agentPath: z.optional(z.nullable(z.string())),
});
export type Item = z.infer<typeof Item>;

const Tokens = z.object({
  totalTokens: z.number(),
  inputTokens: z.number(),
  cachedInputTokens: z.number(),
  cacheWriteInputTokens: z.number(),
  outputTokens: z.number(),
  reasoningOutputTokens: z.number(),
});
export const TokenUsage = z.object({ total: Tokens, last: Tokens });
export type TokenUsage = z.infer<typeof TokenUsage>;

const Status = z.object({ type: z.string() });
const inTurn = { threadId: z.string(), turnId: z.string() };
const onItem = z.object({ ...inTurn, item: Item });
const onTurn = z.object({
  threadId: z.string(),
  turn: z.object({
    id: NativeId,
    /** The turn that this one works for; a subagent's names the turn of the main thread. */
    rootTurnId: z.optional(z.nullable(z.string())),
    status: z.string(),
    error: z.optional(z.nullable(TurnError)),
  }),
});

const EVENT = z.discriminatedUnion("method", [
  z.object({ method: z.literal("turn/started"), params: onTurn }),
  z.object({ method: z.literal("turn/completed"), params: onTurn }),
  z.object({ method: z.literal("item/started"), params: onItem }),
  z.object({ method: z.literal("item/completed"), params: onItem }),
  z.object({
    method: z.literal("item/agentMessage/delta"),
    params: z.object({ ...inTurn, itemId: z.string(), delta: z.string() }),
  }),
  z.object({
    method: z.literal("thread/tokenUsage/updated"),
    params: z.object({ ...inTurn, tokenUsage: TokenUsage }),
  }),
  z.object({
    method: z.literal("thread/status/changed"),
    params: z.object({ threadId: z.string(), status: Status }),
  }),
  z.object({
    method: z.literal("error"),
    params: z.object({ ...inTurn, error: TurnError, willRetry: z.boolean() }),
  }),
  z.object({
    method: z.literal("serverRequest/resolved"),
    params: z.object({ threadId: z.string(), requestId: RequestId }),
  }),
]);
/** Anything else inside a turn: what a child writes, reasoning, output of a tool. Work goes on, and no more is read. */
const Other = z.object({ ...inTurn });

export type NativeEvent = z.infer<typeof EVENT> | { method: "other"; params: z.infer<typeof Other> };

/** What a line holds for us; null when nothing. */
export function readNative(raw: Record<string, unknown>): NativeMessage | null {
  if (typeof raw.method === "string") return raw.id === undefined ? readEvent(raw) : readRequest(raw);
  const refusal = Refusal.safeParse(raw);
  if (refusal.success) return { kind: "refused", id: refusal.data.id, ...refusal.data.error };
  if (raw.result === undefined) return null;
  const answer = Answer.safeParse(raw);
  return answer.success ? { kind: "result", ...answer.data } : null;
}

function readRequest(raw: Record<string, unknown>): NativeMessage | null {
  const request = Request.safeParse(raw);
  return request.success ? { kind: "request", request: request.data } : null;
}

function readEvent(raw: Record<string, unknown>): NativeMessage | null {
  const event = EVENT.safeParse(raw);
  if (event.success) return { kind: "event", event: event.data };
  const notification = Notification.safeParse(raw);
  if (!notification.success) return null;
  const other = Other.safeParse(notification.data.params);
  return other.success ? { kind: "event", event: { method: "other", params: other.data } } : null;
}

/** Answers to what we ask. */
export const Hello = z.object({ userAgent: z.string() });

export const ReadConfig = z.object({
  config: z.object({ mcp_servers: z.nullish(z.record(z.string(), z.unknown())) }),
});

export const OpenThread = z.object({
  thread: z.object({
    id: z.string(),
    /** Where the history is recorded. */
    path: z.optional(z.nullable(z.string())),
    status: Status,
  }),
  cwd: z.string(),
});

export const ReadThread = z.object({
  thread: z.object({ id: z.string(), cwd: z.string(), status: Status }),
});

export const RecordedThread = z.object({ thread: z.object({ path: z.optional(z.nullable(z.string())) }) });

/** The id is the turn's tail. */
export const StartedTurn = z.object({ turn: z.object({ id: NativeId }) });
