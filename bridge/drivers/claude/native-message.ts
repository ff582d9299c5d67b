/**
 * Lines of Claude Code's stream-json, read once at the door. Only what decides something is named; everything else is
 * `other`. Unknown fields are ignored. A known type with a shape that it never had is `broken`: what it would have decided
 * (an end, a request) can't be known any more. Facts: `claude-codex-pi`, 1.3 to 1.7.
 */
import * as z from "zod/mini";
import { NativeId } from "../../../protocol/ids.ts";

const text = z.nullish(z.string());
const count = z.nullish(z.number());

const Usage = z.looseObject({
  input_tokens: count,
  output_tokens: count,
  cache_read_input_tokens: count,
  cache_creation_input_tokens: count,
  output_tokens_details: z.nullish(z.looseObject({ thinking_tokens: count })),
});
export type NativeUsage = z.infer<typeof Usage>;

const Block = z.looseObject({
  type: z.string(),
  text: z.optional(z.string()),
  /** Of a tool call. */
  id: z.optional(z.string()),
  name: z.optional(z.string()),
  input: z.optional(z.unknown()),
  /** Of a tool's result. */
  tool_use_id: z.optional(z.string()),
  is_error: z.nullish(z.boolean()),
});
export type NativeBlock = z.infer<typeof Block>;

/** The tool call that an event's agent works for; null on the root's own. */
const parent = { parent_tool_use_id: text };

const system = <K extends string, S extends z.core.$ZodLooseShape>(subtype: K, shape: S) =>
  z.object({ type: z.literal("system"), subtype: z.literal(subtype), ...parent, ...shape });

const System = z.discriminatedUnion("subtype", [
  /** Again at the beginning of every turn, self-started ones included. */
  system("init", { slash_commands: z._default(z.array(z.string()), []) }),
  system("status", { permissionMode: text, session_id: text }),
  system("api_retry", {
    attempt: z._default(z.number(), 0),
    retry_delay_ms: count,
    error_status: count,
    error: text,
  }),
  system("background_tasks_changed", {
    tasks: z.array(z.object({ task_id: z.string(), task_type: text, description: text })),
  }),
  system("task_started", { task_id: z.string(), tool_use_id: text, description: text, task_type: text }),
]);

const StreamEvent = z.looseObject({
  type: z.string(),
  index: z.optional(z.number()),
  message: z.optional(z.looseObject({ id: z.string(), usage: z.nullish(Usage) })),
  content_block: z.optional(z.looseObject({ type: z.string(), text: z.optional(z.string()) })),
  delta: z.optional(z.looseObject({ type: z.optional(z.string()), text: z.optional(z.string()) })),
  usage: z.nullish(Usage),
});
export type NativeStreamEvent = z.infer<typeof StreamEvent>;

const Result = z.object({
  type: z.literal("result"),
  subtype: z.string(),
  is_error: z.boolean(),
  terminal_reason: text,
  num_turns: z._default(z.number(), 0),
  /** Per turn; `modelUsage` beside it adds up over the process and is not read. */
  usage: z.nullish(Usage),
  result: text,
  errors: z.nullish(z.array(z.string())),
  api_error_status: count,
});
export type NativeResult = z.infer<typeof Result>;

const ControlRequest = z.object({
  type: z.literal("control_request"),
  request_id: z.string(),
  request: z.looseObject({
    subtype: z.string(),
    tool_name: z.optional(z.string()),
    tool_use_id: text,
    /** The subagent that asks; none on the root's own. */
    agent_id: text,
    input: z.optional(z.record(z.string(), z.unknown())),
  }),
});
export type NativeControlRequest = z.infer<typeof ControlRequest>;

const Known = z.discriminatedUnion("type", [
  System,
  z.object({
    type: z.literal("assistant"),
    ...parent,
    /** The row of the transcript: the turn's tail. */
    uuid: NativeId,
    message: z.looseObject({
      id: z.string(),
      model: text,
      content: z.array(Block),
      usage: z.nullish(Usage),
    }),
    /** What the CLI says in the model's place when a request has failed. */
    is_api_error_message: z.nullish(z.boolean()),
  }),
  z.object({
    type: z.literal("user"),
    ...parent,
    uuid: text,
    isReplay: z.nullish(z.boolean()),
    message: z.looseObject({ content: z.union([z.string(), z.array(Block)]) }),
  }),
  z.object({ type: z.literal("stream_event"), ...parent, event: StreamEvent }),
  Result,
  z.object({ type: z.literal("command_lifecycle"), command_uuid: z.string(), state: z.string() }),
  ControlRequest,
  z.object({ type: z.literal("control_cancel_request"), request_id: z.string() }),
  z.object({
    type: z.literal("control_response"),
    response: z.looseObject({
      subtype: z.string(),
      request_id: z.string(),
      error: text,
      response: z.nullish(z.record(z.string(), z.unknown())),
    }),
  }),
]);
export type NativeMessage = z.infer<typeof Known>;

const SYSTEM_SUBTYPES: ReadonlySet<unknown> = new Set(
  System.def.options.map((option) => option.shape.subtype.def.values[0]),
);
const TYPES: ReadonlySet<unknown> = new Set([
  "system",
  "assistant",
  "user",
  "stream_event",
  "result",
  "command_lifecycle",
  "control_request",
  "control_cancel_request",
  "control_response",
]);

export type ReadMessage =
  | { kind: "known"; message: NativeMessage }
  | { kind: "other" }
  | { kind: "broken"; why: string };

export function readMessage(raw: Record<string, unknown>): ReadMessage {
  const { type, subtype } = raw;
  if (!TYPES.has(type) || (type === "system" && !SYSTEM_SUBTYPES.has(subtype))) return { kind: "other" };
  const parsed = Known.safeParse(raw);
  if (parsed.success) return { kind: "known", message: parsed.data };
  const at = parsed.error.issues[0]?.path.join(".") ?? "";
  return { kind: "broken", why: `a message ${String(type)} has an unexpected shape at ${at}` };
}

/**
 * The session that a raw message names for the root: what children print carries their tool call, and never counts, and
 * control messages carry no session. Null: it says nothing of the root's identity.
 */
export function rootSession(raw: Record<string, unknown>): string | null {
  const { session_id: session, parent_tool_use_id: child } = raw;
  return typeof session === "string" && session !== "" && (child === undefined || child === null)
    ? session
    : null;
}
