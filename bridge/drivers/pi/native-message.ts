/**
 * What is read of pi's JSON lines (1.6.0, docs/rpc.md and docs/json.md). Lenient: what is not needed is not looked at,
 * and a kind that is not known is none of ours.
 */
import * as z from "zod/mini";
import { NativeId } from "../../../protocol/ids.ts";
import { PROVIDER } from "./extension/words.ts";

const Index = z.number().check(z.int(), z.nonnegative());

const Tokens = z.object({
  input: z.optional(z.number()),
  output: z.optional(z.number()),
  cacheRead: z.optional(z.number()),
  cacheWrite: z.optional(z.number()),
  reasoning: z.optional(z.number()),
});
export type Tokens = z.infer<typeof Tokens>;

/** A block of a message; only text is looked into. */
const Block = z.object({ type: z.string(), text: z.optional(z.string()) });
const Content = z.union([z.string(), z.array(Block)]);

const Message = z.object({
  role: z.string(),
  content: z.optional(z.nullable(Content)),
  usage: z.optional(Tokens),
  stopReason: z.optional(z.string()),
  errorMessage: z.optional(z.string()),
  timestamp: z.optional(z.number()),
});
export type Message = z.infer<typeof Message>;

const Update = z.object({
  type: z.string(),
  contentIndex: z.optional(Index),
  delta: z.optional(z.string()),
  content: z.optional(z.string()),
});

/** A dialog, which waits for a reply, or a line that is only shown. */
const UiRequest = z.object({
  type: z.literal("extension_ui_request"),
  id: z.string(),
  method: z.string(),
  title: z.optional(z.string()),
  message: z.optional(z.string()),
  placeholder: z.optional(z.string()),
  prefill: z.optional(z.string()),
  options: z.optional(z.array(z.string())),
  /** Milliseconds after which pi itself lets go of the dialog. */
  timeout: z.optional(z.number()),
  statusKey: z.optional(z.string()),
  statusText: z.optional(z.string()),
});
export type UiRequest = z.infer<typeof UiRequest>;

const Response = z.object({
  type: z.literal("response"),
  id: z.optional(z.string()),
  command: z.optional(z.string()),
  success: z.boolean(),
  data: z.optional(z.unknown()),
  error: z.optional(z.string()),
});
export type Response = z.infer<typeof Response>;

const NativeMessage = z.discriminatedUnion("type", [
  Response,
  UiRequest,
  z.object({ type: z.literal("agent_start") }),
  z.object({ type: z.literal("agent_end"), willRetry: z.optional(z.boolean()) }),
  z.object({ type: z.literal("agent_settled"), aborted: z.optional(z.boolean()) }),
  z.object({ type: z.literal("message_start"), message: Message }),
  z.object({ type: z.literal("message_update"), assistantMessageEvent: Update }),
  z.object({ type: z.literal("message_end"), message: Message }),
  z.object({
    type: z.literal("tool_execution_start"),
    toolCallId: z.string(),
    toolName: z.string(),
    args: z.optional(z.unknown()),
  }),
  z.object({ type: z.literal("tool_execution_update"), toolCallId: z.string() }),
  z.object({
    type: z.literal("tool_execution_end"),
    toolCallId: z.string(),
    toolName: z.string(),
    isError: z.optional(z.boolean()),
  }),
  z.object({
    type: z.literal("auto_retry_start"),
    attempt: Index,
    delayMs: z.number(),
    errorMessage: z.optional(z.string()),
  }),
  z.object({ type: z.literal("compaction_start"), reason: z.optional(z.string()) }),
  z.object({
    type: z.literal("compaction_end"),
    willRetry: z.optional(z.boolean()),
    result: z.optional(z.nullable(z.object({ usage: z.optional(Tokens) }))),
  }),
  z.object({
    type: z.literal("summarization_retry_scheduled"),
    attempt: Index,
    delayMs: z.number(),
    errorMessage: z.optional(z.string()),
  }),
  z.object({ type: z.literal("extension_error"), event: z.optional(z.string()) }),
]);
export type NativeMessage = z.infer<typeof NativeMessage>;

/** Null for a kind that we do not know, or one of another shape than ours. */
export function readNative(message: Record<string, unknown>): NativeMessage | null {
  const result = NativeMessage.safeParse(message);
  return result.success ? result.data : null;
}

/** The text of a message's blocks, as the user wrote it or the model said it. */
export function textOf({ content }: Message): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((block) => (block.type === "text" ? (block.text ?? "") : "")).join("");
}

/** Answer to `get_state`. */
export const State = z.object({
  sessionId: z.string(),
  isStreaming: z.boolean(),
  isCompacting: z.boolean(),
  messageCount: z.number(),
  pendingMessageCount: z.number(),
  model: z.optional(z.object({ id: z.string(), provider: z.string() })),
});
export type State = z.infer<typeof State>;

export function hasModel({ model }: State, name: string): boolean {
  return model?.provider === PROVIDER && model.id === name;
}

/** Answer to `get_entries`: records of the session, oldest first. */
export const Entries = z.object({
  entries: z.array(
    z.object({
      type: z.string(),
      /** May become a turn's tail. */
      id: NativeId,
      parentId: z.nullable(z.string()),
      message: z.optional(z.object({ role: z.string(), timestamp: z.optional(z.number()) })),
    }),
  ),
  leafId: z.nullable(z.string()),
});
export type Entries = z.infer<typeof Entries>;
