// The three wire protocols as the tests of the loopback model write and read them: from one conversation to the
// body of each, and from each reply, whole or streamed, to one shape. Written by hand, apart from the model's own.
import type { ErrorReason, FinishReason, Usage } from "../support/model/neutral.ts";

/** A message of the tests' conversation, in the form of Chat Completions. */
export interface Message {
  readonly role: "user" | "assistant" | "tool";
  readonly content: unknown;
  readonly tool_calls?: readonly { id: string; function: { name: string; arguments: string } }[];
  readonly tool_call_id?: string;
}

interface Conversation {
  readonly system: string;
  readonly messages: readonly Message[];
  readonly tools: boolean;
  readonly stream: boolean;
}

interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** What a reply says, up to where it broke. */
export interface Read {
  readonly text: string;
  readonly calls: readonly Call[];
  readonly finish: FinishReason | null;
  readonly usage: Usage | null;
  readonly error: { readonly message: string; readonly name: string } | null;
  /** The protocol's own last word came. */
  readonly isDone: boolean;
}

export interface Wire {
  readonly name: string;
  readonly path: string;
  readonly statesReasoning: boolean;
  readonly callPrefix: string;
  keyHeader(key: string): Record<string, string>;
  body(conversation: Conversation): object;
  /** The data of each event, in order; of a whole reply, the body alone. */
  read(pieces: readonly Json[], isStream: boolean): Read;
  /** What the error of a stream is called, for each reason of a script. */
  readonly streamErrors: Record<ErrorReason, string>;
  /** What the body of a status calls the error. */
  readonly statusErrors: Readonly<Record<number, string>>;
}

// biome-ignore lint/suspicious/noExplicitAny: wire text of three shapes, read by key and checked by the tests.
export type Json = any;

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

export const CHAT: Wire = {
  name: "chat-completions",
  path: "/chat/completions",
  statesReasoning: true,
  callPrefix: "call_",
  keyHeader: bearer,
  body: ({ system, messages, tools, stream }) => ({
    model: "m1",
    messages: [{ role: "system", content: system }, ...messages],
    ...(tools ? { tools: [{ type: "function", function: { name: "bash", parameters: {} } }] } : {}),
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  }),
  read: (pieces) => {
    const choices = pieces.flatMap((piece) => piece.choices?.[0] ?? []);
    const deltas = choices.map((choice) => choice.delta ?? choice.message ?? {});
    const calls: { id: string; name: string; arguments: string }[] = [];
    for (const [at, part] of deltas.flatMap((delta) => delta.tool_calls ?? []).entries()) {
      const index = part.index ?? at;
      const found = calls[index] ?? { id: "", name: "", arguments: "" };
      found.id += part.id ?? "";
      found.name += part.function?.name ?? "";
      found.arguments += part.function?.arguments ?? "";
      calls[index] = found;
    }
    const usage = pieces.findLast((piece) => piece.usage)?.usage;
    const error = pieces.findLast((piece) => piece.error)?.error;
    const reason = choices.findLast((choice) => choice.finish_reason)?.finish_reason;
    return {
      text: deltas.map((delta) => delta.content ?? "").join(""),
      calls,
      finish: finishOf({ stop: "stop", tool_calls: "toolCalls", length: "length" }, reason),
      usage: usage && {
        inputTokens: usage.prompt_tokens,
        outputTokens: usage.completion_tokens,
        cachedInputTokens: usage.prompt_tokens_details.cached_tokens,
        cacheWriteTokens: usage.prompt_tokens_details.cache_write_tokens ?? 0,
        reasoningTokens: usage.completion_tokens_details.reasoning_tokens,
      },
      error: error && { message: error.message, name: error.code ?? error.type },
      isDone: pieces.at(-1) === DONE,
    };
  },
  streamErrors: {
    server: "server_error",
    overloaded: "overloaded",
    rateLimit: "rate_limit_exceeded",
    contextOverflow: "context_length_exceeded",
  },
  statusErrors: { 400: "invalid_request_error", 429: "rate_limit_error", 500: "server_error" },
};

export const RESPONSES: Wire = {
  name: "responses",
  path: "/responses",
  statesReasoning: true,
  callPrefix: "call_",
  keyHeader: bearer,
  body: ({ system, messages, tools, stream }) => ({
    model: "m1",
    instructions: system,
    input: messages.flatMap((message) => responsesItems(message)),
    ...(tools ? { tools: [{ type: "function", name: "bash", parameters: {} }] } : {}),
    stream,
    store: false,
  }),
  read: (pieces, isStream) => {
    const response = isStream ? pieces.findLast((piece) => piece.response)?.response : pieces[0];
    const of = (type: string) => pieces.filter((piece) => piece.type === type);
    const items: Json[] = isStream
      ? of("response.output_item.done").map(({ item }) => item)
      : (response?.output ?? []);
    const usage = response?.usage;
    const error = response?.error;
    return {
      text: isStream
        ? of("response.output_text.delta")
            .map(({ delta }) => delta)
            .join("")
        : items.flatMap((item) => item.content?.map((part: Json) => part.text) ?? []).join(""),
      calls: items
        .filter(({ type }) => type === "function_call")
        .map((item) => ({ id: item.call_id, name: item.name, arguments: item.arguments })),
      finish: finishOf(
        {
          completed: items.some(({ type }) => type === "function_call") ? "toolCalls" : "stop",
          incomplete: "length",
        },
        response?.status,
      ),
      usage: usage && {
        inputTokens: usage.input_tokens,
        outputTokens: usage.output_tokens,
        cachedInputTokens: usage.input_tokens_details.cached_tokens,
        cacheWriteTokens: usage.input_tokens_details.cache_write_tokens,
        reasoningTokens: usage.output_tokens_details.reasoning_tokens,
      },
      error: error && { message: error.message, name: error.code ?? error.type },
      isDone: /^response\.(?:completed|incomplete)$/.test(pieces.at(-1)?.type ?? ""),
    };
  },
  streamErrors: {
    server: "server_error",
    overloaded: "server_is_overloaded",
    rateLimit: "rate_limit_exceeded",
    contextOverflow: "context_length_exceeded",
  },
  statusErrors: CHAT.statusErrors,
};

export const MESSAGES: Wire = {
  name: "anthropic-messages",
  path: "/messages?beta=true",
  statesReasoning: false,
  callPrefix: "toolu_",
  keyHeader: (key) => ({ "x-api-key": key }),
  body: ({ system, messages, tools, stream }) => ({
    model: "m1",
    max_tokens: 32_000,
    system: [{ type: "text", text: system }],
    messages: messages.map((message) => anthropicMessage(message)),
    ...(tools ? { tools: [{ name: "bash", input_schema: {} }] } : {}),
    ...(stream ? { stream } : {}),
  }),
  read: (pieces, isStream) => {
    const of = (type: string) => pieces.filter((piece) => piece.type === type);
    const last = isStream ? of("message_delta").at(-1) : pieces[0];
    const usage = last?.usage;
    const error = pieces.findLast((piece) => piece.error)?.error;
    const deltas = of("content_block_delta");
    const join = (index: number, key: "text" | "partial_json") =>
      deltas.flatMap((piece) => (piece.index === index ? [piece.delta[key] ?? ""] : [])).join("");
    const blocks: Json[] = isStream
      ? of("content_block_start").map(({ index, content_block: block }) => ({
          ...block,
          text: join(index, "text"),
          arguments: join(index, "partial_json"),
        }))
      : (pieces[0]?.content ?? []).map((block: Json) => ({
          ...block,
          arguments: typeof block.input === "string" ? block.input : JSON.stringify(block.input),
        }));
    return {
      text: blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join(""),
      calls: blocks
        .filter(({ type }) => type === "tool_use")
        .map((block) => ({ id: block.id, name: block.name, arguments: block.arguments })),
      finish: finishOf(
        { end_turn: "stop", tool_use: "toolCalls", max_tokens: "length" },
        isStream ? last?.delta.stop_reason : last?.stop_reason,
      ),
      usage: usage && {
        inputTokens: usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
        outputTokens: usage.output_tokens,
        cachedInputTokens: usage.cache_read_input_tokens,
        cacheWriteTokens: usage.cache_creation_input_tokens,
        reasoningTokens: 0,
      },
      error: error && { message: error.message, name: error.type },
      isDone: pieces.at(-1)?.type === "message_stop",
    };
  },
  streamErrors: {
    server: "api_error",
    overloaded: "overloaded_error",
    rateLimit: "rate_limit_error",
    contextOverflow: "invalid_request_error",
  },
  statusErrors: {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
  },
};

export const WIRES: readonly Wire[] = [CHAT, RESPONSES, MESSAGES];

/** The end of a Chat Completions stream, which is no JSON. */
const DONE = "[DONE]";

/** The data of each event, or the body alone; nothing of a body that broke. */
export function piecesOf(raw: string, isStream: boolean): Json[] {
  const texts = isStream ? [...raw.matchAll(/^data: (.*)\n\n/gm)].map(([, data]) => data ?? "") : [raw];
  return texts.flatMap((text) => {
    if (text === DONE) return [DONE];
    try {
      return [JSON.parse(text)];
    } catch {
      return [];
    }
  });
}

function finishOf(names: Record<string, FinishReason>, name: string | undefined): FinishReason | null {
  return names[name ?? ""] ?? null;
}

function responsesItems({ role, content, tool_calls = [], tool_call_id }: Message): object[] {
  if (role === "tool") return [{ type: "function_call_output", call_id: tool_call_id, output: content }];
  const type = role === "user" ? "input_text" : "output_text";
  const parts = partsOf(content).map(({ text }) => ({ type, text }));
  const calls = tool_calls.map(({ id, function: called }) => ({
    type: "function_call",
    call_id: id,
    ...called,
  }));
  return [...(content === null ? [] : [{ type: "message", role, content: parts }]), ...calls];
}

function anthropicMessage({ role, content, tool_calls = [], tool_call_id }: Message): object {
  if (role === "tool") {
    return { role: "user", content: [{ type: "tool_result", tool_use_id: tool_call_id, content }] };
  }
  const calls = tool_calls.map(({ id, function: { name, arguments: args } }) => ({
    type: "tool_use",
    id,
    name,
    input: JSON.parse(args),
  }));
  return { role, content: [...partsOf(content), ...calls] };
}

function partsOf(content: unknown): { type: string; text: string }[] {
  if (content === null) return [];
  return typeof content === "string"
    ? [{ type: "text", text: content }]
    : (content as { type: string; text: string }[]);
}
