// OpenAI Chat Completions on the wire: request body -> neutral request, neutral reply -> stream or body.
// Knows no socket and no script. `responses.ts` and `anthropic-messages.ts` stand beside it in the same shape.
import { z } from "zod";
import type {
  ErrorReason,
  FinishReason,
  NeutralRequest,
  Row,
  StreamWriter,
  ToolCall,
  Usage,
  WireProtocol,
} from "./neutral.ts";

const content = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.string(), text: z.string().optional() })),
]);
const call = z.object({
  id: z.string(),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
const message = z.discriminatedUnion("role", [
  z.object({ role: z.literal("system"), content }),
  z.object({ role: z.literal("developer"), content }),
  z.object({ role: z.literal("user"), content }),
  z.object({ role: z.literal("assistant"), content: content.nullish(), tool_calls: z.array(call).nullish() }),
  z.object({ role: z.literal("tool"), content, tool_call_id: z.string() }),
]);
const body = z.object({
  model: z.string(),
  messages: z.array(message),
  tools: z.array(z.object({ function: z.object({ name: z.string() }) })).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
});

export const chatCompletions: WireProtocol = {
  name: "chat-completions",
  path: "/v1/chat/completions",
  callPrefix: "call_",
  isOverflowInStream: false,
  overflowMessage:
    "This model's maximum context length is 100000 tokens. However, your messages resulted in 100001 tokens. Please reduce the length of the messages.",

  presentedKey(headers) {
    return /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? null;
  },

  parse(input) {
    const parsed = body.safeParse(input);
    if (!parsed.success)
      throw new TypeError(`not a chat completions request: ${z.prettifyError(parsed.error)}`);
    const { model, messages, tools, stream, stream_options } = parsed.data;
    const isSystem = (role: string) => role === "system" || role === "developer";
    return {
      model,
      system: messages.flatMap((each) => (isSystem(each.role) ? textsOf(each.content) : [])).join("\n"),
      rows: messages.flatMap((each) => rowOf(each) ?? []),
      tools: (tools ?? []).map((tool) => tool.function.name),
      freeformTools: [],
      stream: stream === true,
      wantsUsage: stream !== true || stream_options?.include_usage === true,
    };
  },

  streamWriter(request, replyId, createdAt) {
    return new ChunkWriter(request, replyId, createdAt);
  },

  whole(request, reply, replyId, createdAt) {
    const tool_calls = reply.toolCalls.map((each) => wireCall(each));
    return {
      id: `chatcmpl-${replyId}`,
      object: "chat.completion",
      created: Math.floor(createdAt / 1000),
      model: request.model,
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: reply.text === "" && tool_calls.length > 0 ? null : reply.text,
            ...(tool_calls.length > 0 ? { tool_calls } : {}),
          },
          finish_reason: reply.finish === null ? null : FINISH[reply.finish],
        },
      ],
      ...(reply.usage === null ? {} : { usage: wireUsage(reply.usage) }),
    };
  },

  error(status, text) {
    return { error: { message: text, type: errorType(status), param: null, code: null } };
  },

  contextOverflow(message) {
    const error = {
      message,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
    return { status: 400, body: { error } };
  },
};

const FINISH: Record<FinishReason, string> = { stop: "stop", toolCalls: "tool_calls", length: "length" };

const STREAM_ERROR: Record<ErrorReason, { type: string; code: string | null }> = {
  server: { type: "server_error", code: null },
  overloaded: { type: "server_error", code: "overloaded" },
  rateLimit: { type: "rate_limit_error", code: "rate_limit_exceeded" },
  contextOverflow: { type: "invalid_request_error", code: "context_length_exceeded" },
};

class ChunkWriter implements StreamWriter {
  readonly #head: object;
  readonly #wantsUsage: boolean;
  #toolCalls = 0;

  constructor(request: NeutralRequest, replyId: string, createdAt: number) {
    const created = Math.floor(createdAt / 1000);
    this.#head = {
      id: `chatcmpl-${replyId}`,
      object: "chat.completion.chunk",
      created,
      model: request.model,
    };
    this.#wantsUsage = request.wantsUsage;
  }

  start(): string {
    return this.#chunk({ role: "assistant", content: "" });
  }

  text(chunk: string): string {
    return this.#chunk({ content: chunk });
  }

  /** The arguments go out in two pieces, as providers send them. */
  toolCall(each: ToolCall): string {
    const index = this.#toolCalls++;
    const middle = Math.floor(each.arguments.length / 2);
    const opening = { index, ...wireCall({ ...each, arguments: "" }) };
    const pieces = [each.arguments.slice(0, middle), each.arguments.slice(middle)];
    return [opening, ...pieces.map((piece) => ({ index, function: { arguments: piece } }))]
      .map((piece) => this.#chunk({ tool_calls: [piece] }))
      .join("");
  }

  error(message: string, reason: ErrorReason): string {
    return frame({ error: { message, param: null, ...STREAM_ERROR[reason] } });
  }

  finish(reason: FinishReason, usage: Usage | null): string {
    const last = this.#chunk({}, FINISH[reason]);
    const figures =
      usage !== null && this.#wantsUsage
        ? frame({ ...this.#head, choices: [], usage: wireUsage(usage) })
        : "";
    return `${last}${figures}data: [DONE]\n\n`;
  }

  #chunk(delta: object, finish: string | null = null): string {
    return frame({ ...this.#head, choices: [{ index: 0, delta, finish_reason: finish }] });
  }
}

function frame(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function wireCall(each: ToolCall) {
  return { id: each.id, type: "function", function: { name: each.name, arguments: each.arguments } };
}

function wireUsage(usage: Usage) {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: {
      cached_tokens: usage.cachedInputTokens,
      // Not OpenAI's own: of the providers that cache at a price (OpenRouter), and read by Pi.
      ...(usage.cacheWriteTokens > 0 ? { cache_write_tokens: usage.cacheWriteTokens } : {}),
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  };
}

function errorType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function rowOf(each: z.output<typeof message>): Row | null {
  if (each.role === "system" || each.role === "developer") return null;
  const texts = textsOf(each.content);
  const text = texts.join("\n");
  const empty = { toolCalls: [], toolResults: [] };
  if (each.role === "user") return { role: "user", text, texts, ...empty };
  if (each.role === "tool") {
    return { role: "tool", text, texts, toolCalls: [], toolResults: [{ callId: each.tool_call_id, text }] };
  }
  const toolCalls = (each.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
    id,
    name,
    arguments: args,
  }));
  return { role: "assistant", text, texts, toolCalls, toolResults: [] };
}

function textsOf(value: z.output<typeof content> | null | undefined): string[] {
  if (value === null || value === undefined) return [];
  if (typeof value === "string") return [value];
  return value.flatMap((part) => (part.type === "text" ? [part.text ?? ""] : []));
}
