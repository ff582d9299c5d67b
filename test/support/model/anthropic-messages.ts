// Anthropic Messages on the wire: request body -> neutral request, neutral reply -> stream or body. Knows no
// socket and no script. Tool results, which come inside user messages, become rows of their own.
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

/** Thinking, images, documents and what else there may be: not read. */
const otherThan = (...known: string[]) =>
  z
    .object({ type: z.string().refine((type) => !known.includes(type)) })
    .transform(() => ({ type: "other" as const }));

const text = z.object({ type: z.literal("text"), text: z.string() });
const oneText = z.string().transform((value) => [{ type: "text" as const, text: value }]);
const toolUse = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.unknown(),
});
const toolResult = z.object({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.union([oneText, z.array(z.union([text, otherThan("text")]))]).nullish(),
});
const block = z.union([text, toolUse, toolResult, otherThan("text", "tool_use", "tool_result")]);
type Block = z.output<typeof block>;

const content = z.union([oneText, z.array(block)]);
const body = z.object({
  model: z.string(),
  system: content.nullish(),
  messages: z.array(z.object({ role: z.enum(["user", "assistant", "system"]), content })),
  tools: z.array(z.looseObject({ name: z.string() })).nullish(),
  stream: z.boolean().nullish(),
});

export const anthropicMessages: WireProtocol = {
  name: "anthropic-messages",
  path: "/v1/messages",
  callPrefix: "toolu_",
  isOverflowInStream: false,
  overflowMessage: "prompt is too long: 100001 tokens > 100000 maximum",

  presentedKey(headers) {
    const key = headers["x-api-key"];
    if (typeof key === "string" && key !== "") return key;
    return /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? null;
  },

  parse(input) {
    const parsed = body.safeParse(input);
    if (!parsed.success) throw new TypeError(`not a messages request: ${z.prettifyError(parsed.error)}`);
    const { model, system, messages, tools, stream } = parsed.data;
    const later = messages.filter(({ role }) => role === "system").map((each) => each.content);
    return {
      model,
      system: [system ?? [], ...later].flatMap((blocks) => textsOf(blocks)).join("\n"),
      rows: messages.flatMap(({ role, content: blocks }) => {
        if (role === "system") return [];
        return role === "user" ? userRows(blocks) : [assistantRow(blocks)];
      }),
      tools: (tools ?? []).map(({ name }) => name),
      freeformTools: [],
      stream: stream === true,
      wantsUsage: true,
    };
  },

  streamWriter(request, replyId) {
    return new EventWriter(request, replyId);
  },

  whole(request, reply, replyId) {
    return {
      ...head(request, replyId),
      content: [
        ...(reply.text === "" ? [] : [{ type: "text", text: reply.text }]),
        ...reply.toolCalls.map((each) => ({ ...openingOf(each), input: inputOf(each) })),
      ],
      stop_reason: reply.finish === null ? null : STOP_REASON[reply.finish],
      stop_sequence: null,
      ...(reply.usage === null ? {} : { usage: wireUsage(reply.usage) }),
    };
  },

  error(status, message) {
    return errorBody(errorType(status), message);
  },

  contextOverflow(message) {
    return { status: 400, body: errorBody("invalid_request_error", message) };
  },
};

/** Answer of `POST /v1/messages/count_tokens`: about four characters a token, and never none. */
export function countTokens(bodyText: string): { input_tokens: number } {
  return { input_tokens: Math.ceil(bodyText.length / 4) + 1 };
}

class EventWriter implements StreamWriter {
  readonly #request: NeutralRequest;
  readonly #replyId: string;
  /** Index of the next block, or of the open one. */
  #index = 0;
  #isTextOpen = false;

  constructor(request: NeutralRequest, replyId: string) {
    this.#request = request;
    this.#replyId = replyId;
  }

  /** The input is stated here, the output at the end: so far, one token at most. */
  start(usage: Usage | null): string {
    const figures =
      usage === null ? {} : { usage: wireUsage({ ...usage, outputTokens: Math.min(1, usage.outputTokens) }) };
    const message = {
      ...head(this.#request, this.#replyId),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      ...figures,
    };
    return frame("message_start", { message }) + frame("ping", {});
  }

  text(chunk: string): string {
    const opening = this.#isTextOpen ? "" : this.#open({ type: "text", text: "" });
    this.#isTextOpen = true;
    return opening + this.#delta({ type: "text_delta", text: chunk });
  }

  /** The arguments go out in two pieces, as providers send them. */
  toolCall(each: ToolCall): string {
    const closing = this.#closeText();
    const middle = Math.floor(each.arguments.length / 2);
    const pieces = [each.arguments.slice(0, middle), each.arguments.slice(middle)];
    return [
      closing,
      this.#open({ ...openingOf(each), input: {} }),
      ...pieces.map((partial_json) => this.#delta({ type: "input_json_delta", partial_json })),
      this.#close(),
    ].join("");
  }

  error(message: string, reason: ErrorReason): string {
    return frame("error", errorBody(STREAM_ERROR[reason], message));
  }

  finish(reason: FinishReason, usage: Usage | null): string {
    const delta = { stop_reason: STOP_REASON[reason], stop_sequence: null };
    const figures = usage === null ? {} : { usage: wireUsage(usage) };
    return this.#closeText() + frame("message_delta", { delta, ...figures }) + frame("message_stop", {});
  }

  #open(content_block: object): string {
    return frame("content_block_start", { index: this.#index, content_block });
  }

  #delta(delta: object): string {
    return frame("content_block_delta", { index: this.#index, delta });
  }

  #close(): string {
    return frame("content_block_stop", { index: this.#index++ });
  }

  #closeText(): string {
    if (!this.#isTextOpen) return "";
    this.#isTextOpen = false;
    return this.#close();
  }
}

const STOP_REASON: Record<FinishReason, string> = {
  stop: "end_turn",
  toolCalls: "tool_use",
  length: "max_tokens",
};

const STREAM_ERROR: Record<ErrorReason, string> = {
  server: "api_error",
  overloaded: "overloaded_error",
  rateLimit: "rate_limit_error",
  contextOverflow: "invalid_request_error",
};

function frame(type: string, value: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...value })}\n\n`;
}

function head(request: NeutralRequest, replyId: string) {
  return { id: `msg_${replyId}`, type: "message", role: "assistant", model: request.model };
}

function openingOf({ id, name }: ToolCall) {
  return { type: "tool_use", id, name };
}

/** What isn't JSON stays text: a provider would not send that, but a script may. */
function inputOf(each: ToolCall): unknown {
  try {
    return JSON.parse(each.arguments);
  } catch {
    return each.arguments;
  }
}

/** Reasoning is part of the output here and has no figure of its own. */
function wireUsage(usage: Usage) {
  return {
    input_tokens: usage.inputTokens - usage.cachedInputTokens - usage.cacheWriteTokens,
    cache_creation_input_tokens: usage.cacheWriteTokens,
    cache_read_input_tokens: usage.cachedInputTokens,
    output_tokens: usage.outputTokens,
  };
}

function errorBody(type: string, message: string) {
  return { type: "error", error: { type, message } };
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

function errorType(status: number): string {
  return ERROR_TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
}

/** Results first, then the texts as one row: results of a turn's tools and the next turn's text may share a message. */
function userRows(blocks: readonly Block[]): Row[] {
  const results = blocks.flatMap((each) => (each.type === "tool_result" ? [resultRow(each)] : []));
  const texts = textsOf(blocks);
  if (texts.length === 0 && results.length > 0) return results;
  return [...results, { role: "user", text: texts.join("\n"), texts, toolCalls: [], toolResults: [] }];
}

function resultRow({ tool_use_id: callId, content: value }: z.output<typeof toolResult>): Row {
  const texts = textsOf(value ?? []);
  const joined = texts.join("\n");
  const toolResults = [{ callId, text: joined }];
  return { role: "tool", text: joined, texts, toolCalls: [], toolResults };
}

function assistantRow(blocks: readonly Block[]): Row {
  const texts = textsOf(blocks);
  const toolCalls = blocks.flatMap((each) =>
    each.type === "tool_use" ? [{ id: each.id, name: each.name, arguments: JSON.stringify(each.input) }] : [],
  );
  return { role: "assistant", text: texts.join("\n"), texts, toolCalls, toolResults: [] };
}

function textsOf(blocks: readonly Block[]): string[] {
  return blocks.flatMap((each) => (each.type === "text" ? [each.text] : []));
}
