// OpenAI Responses on the wire: request body -> neutral request, neutral reply -> stream or body. Knows no
// socket and no script. A tool inside a namespace is called `namespace.tool` outside this file.
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
const callKeys = { call_id: z.string(), name: z.string(), namespace: z.string().nullish() };

/** The items that make a history. What stands beside them (reasoning, hosted tools, …) is left out. */
const ITEMS = {
  message: z.object({ role: z.enum(["user", "assistant", "system", "developer"]), content }),
  function_call: z.object({ ...callKeys, arguments: z.string() }),
  custom_tool_call: z.object({ ...callKeys, input: z.string() }),
  function_call_output: z.object({ call_id: z.string(), output: content }),
  custom_tool_call_output: z.object({ call_id: z.string(), output: content }),
} as const;

const anyItem = z.looseObject({ type: z.string().optional(), role: z.string().optional() });
const tool = z.looseObject({
  type: z.string(),
  name: z.string().optional(),
  tools: z.array(z.looseObject({ name: z.string() })).optional(),
});
const body = z.object({
  model: z.string(),
  instructions: z.string().nullish(),
  input: z.union([z.string(), z.array(anyItem)]),
  tools: z.array(tool).nullish(),
  stream: z.boolean().nullish(),
});

export const responses: WireProtocol = {
  name: "responses",
  path: "/v1/responses",
  callPrefix: "call_",
  isOverflowInStream: true,
  overflowMessage:
    "Your input exceeds the context window of this model. Please adjust your input and try again.",

  presentedKey(headers) {
    return /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? null;
  },

  parse(input) {
    const { model, instructions, input: given, tools, stream } = checked(body, input);
    const history = new HistoryReader();
    if (typeof given === "string") history.user([given]);
    else for (const item of given) history.item(item);
    return {
      model,
      system: [...(instructions ? [instructions] : []), ...history.system].join("\n"),
      rows: history.rows,
      tools: (tools ?? []).flatMap((each) => toolNames(each)),
      freeformTools: (tools ?? []).flatMap(({ type, name }) => (type === "custom" && name ? [name] : [])),
      stream: stream === true,
      wantsUsage: true,
    };
  },

  streamWriter(request, replyId, createdAt) {
    return new EventWriter(request, replyId, createdAt);
  },

  whole(request, reply, replyId, createdAt) {
    const output = [
      ...(reply.text === "" ? [] : [messageItem(`msg_${replyId}`, reply.text)]),
      ...reply.toolCalls.map((each, at) => itemOf(request, each, `${replyId}_${at}`).item),
    ];
    return {
      ...head(request, replyId, createdAt),
      ...(reply.finish === null ? { status: "in_progress" } : END[reply.finish].response),
      output,
      usage: reply.usage === null ? null : wireUsage(reply.usage),
    };
  },

  error(status, message) {
    return { error: { message, type: errorType(status), param: null, code: null } };
  },

  contextOverflow(message) {
    const error = { message, type: "invalid_request_error", param: "input", code: "context_length_exceeded" };
    return { status: 400, body: { error } };
  },
};

/** Rows from items. What the model said at once comes as several items in a row: they make one assistant row. */
class HistoryReader {
  readonly rows: Row[] = [];
  readonly system: string[] = [];
  /** Of the assistant row that the next item of the model belongs to; null after anybody else's item. */
  #said: { texts: string[]; toolCalls: ToolCall[] } | null = null;

  item(item: z.output<typeof anyItem>): void {
    const type = item.type ?? (item.role === undefined ? "" : "message");
    switch (type) {
      case "message":
        return this.#message(checked(ITEMS.message, item));
      case "function_call": {
        const { call_id: id, arguments: args, ...named } = checked(ITEMS.function_call, item);
        return this.#assistant([], [{ id, name: fullName(named), arguments: args }]);
      }
      case "custom_tool_call": {
        const { call_id: id, input, ...named } = checked(ITEMS.custom_tool_call, item);
        return this.#assistant([], [{ id, name: fullName(named), arguments: input }]);
      }
      case "function_call_output":
      case "custom_tool_call_output": {
        const { call_id: callId, output } = checked(ITEMS[type], item);
        const texts = textsOf(output);
        const text = texts.join("\n");
        return this.#add({ role: "tool", text, texts, toolCalls: [], toolResults: [{ callId, text }] });
      }
      default:
    }
  }

  user(texts: string[]): void {
    this.#add({ role: "user", text: texts.join("\n"), texts, toolCalls: [], toolResults: [] });
  }

  #message({ role, content: value }: z.output<typeof ITEMS.message>): void {
    if (role === "user") this.user(textsOf(value));
    else if (role === "assistant") this.#assistant(textsOf(value), []);
    else this.system.push(...textsOf(value));
  }

  #assistant(texts: string[], toolCalls: ToolCall[]): void {
    const before = this.#said;
    const said = {
      texts: [...(before?.texts ?? []), ...texts],
      toolCalls: [...(before?.toolCalls ?? []), ...toolCalls],
    };
    if (before !== null) this.rows.pop();
    this.#add({ role: "assistant", text: said.texts.join("\n"), ...said, toolResults: [] });
    this.#said = said;
  }

  #add(row: Row): void {
    this.rows.push(row);
    this.#said = null;
  }
}

class EventWriter implements StreamWriter {
  readonly #request: NeutralRequest;
  readonly #head: object;
  readonly #replyId: string;
  readonly #output: object[] = [];
  #sequence = 0;
  /** Text of the message that is open; null: none is. */
  #text: string | null = null;

  constructor(request: NeutralRequest, replyId: string, createdAt: number) {
    this.#request = request;
    this.#head = head(request, replyId, createdAt);
    this.#replyId = replyId;
  }

  start(): string {
    const response = { ...this.#head, status: "in_progress", output: [], usage: null };
    return this.#event("response.created", { response }) + this.#event("response.in_progress", { response });
  }

  text(chunk: string): string {
    const opening = this.#text === null ? this.#openMessage() : "";
    this.#text = (this.#text ?? "") + chunk;
    return (
      opening + this.#event("response.output_text.delta", { ...this.#part(), delta: chunk, logprobs: [] })
    );
  }

  /** The arguments go out in two pieces, as providers send them. */
  toolCall(each: ToolCall): string {
    const closing = this.#closeMessage();
    const output_index = this.#output.length;
    const { item, key, events } = itemOf(this.#request, each, `${this.#replyId}_${output_index}`);
    const middle = Math.floor(each.arguments.length / 2);
    const at = { item_id: item.id, output_index };
    const pieces = [each.arguments.slice(0, middle), each.arguments.slice(middle)];
    this.#output.push(item);
    return [
      closing,
      this.#event("response.output_item.added", {
        output_index,
        item: { ...item, status: "in_progress", [key]: "" },
      }),
      ...pieces.map((delta) => this.#event(`${events}.delta`, { ...at, delta })),
      this.#event(`${events}.done`, { ...at, [key]: each.arguments }),
      this.#event("response.output_item.done", { output_index, item }),
    ].join("");
  }

  error(message: string, reason: ErrorReason): string {
    const error = { code: ERROR_CODE[reason], message };
    const response = { ...this.#head, status: "failed", output: this.#output, usage: null, error };
    return this.#event("response.failed", { response });
  }

  finish(reason: FinishReason, usage: Usage | null): string {
    const closing = this.#closeMessage();
    const response = {
      ...this.#head,
      ...END[reason].response,
      output: this.#output,
      usage: usage === null ? null : wireUsage(usage),
    };
    return closing + this.#event(END[reason].event, { response });
  }

  #openMessage(): string {
    const { item_id: id, output_index } = this.#part();
    const item = { ...messageItem(id, ""), status: "in_progress", content: [] };
    return (
      this.#event("response.output_item.added", { output_index, item }) +
      this.#event("response.content_part.added", { ...this.#part(), part: textPart("") })
    );
  }

  #closeMessage(): string {
    const text = this.#text;
    if (text === null) return "";
    const at = this.#part();
    const item = messageItem(at.item_id, text);
    this.#text = null;
    this.#output.push(item);
    return [
      this.#event("response.output_text.done", { ...at, text, logprobs: [] }),
      this.#event("response.content_part.done", { ...at, part: textPart(text) }),
      this.#event("response.output_item.done", { output_index: at.output_index, item }),
    ].join("");
  }

  #part() {
    return { item_id: `msg_${this.#replyId}`, output_index: this.#output.length, content_index: 0 };
  }

  #event(type: string, value: object): string {
    const event = { type, sequence_number: this.#sequence++, ...value };
    return `event: ${type}\ndata: ${JSON.stringify(event)}\n\n`;
  }
}

const COMPLETED = {
  event: "response.completed",
  response: { status: "completed", incomplete_details: null },
} as const;
const END = {
  stop: COMPLETED,
  toolCalls: COMPLETED,
  length: {
    event: "response.incomplete",
    response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
  },
} as const satisfies Record<FinishReason, object>;

const ERROR_CODE: Record<ErrorReason, string> = {
  server: "server_error",
  overloaded: "server_is_overloaded",
  rateLimit: "rate_limit_exceeded",
  contextOverflow: "context_length_exceeded",
};

function head(request: NeutralRequest, replyId: string, createdAt: number) {
  return {
    id: `resp_${replyId}`,
    object: "response",
    created_at: Math.floor(createdAt / 1000),
    model: request.model,
    error: null,
    incomplete_details: null,
  };
}

function messageItem(id: string, text: string) {
  return { id, type: "message", status: "completed", role: "assistant", content: [textPart(text)] };
}

function textPart(text: string) {
  return { type: "output_text", text, annotations: [] };
}

/** The item of a call, the key which its arguments have there, and the events that carry them. */
function itemOf(request: NeutralRequest, each: ToolCall, id: string) {
  const isFreeform = request.freeformTools.includes(each.name);
  const key = isFreeform ? "input" : "arguments";
  const dot = each.name.lastIndexOf(".");
  const item = {
    id: `${isFreeform ? "ctc" : "fc"}_${id}`,
    type: isFreeform ? "custom_tool_call" : "function_call",
    status: "completed",
    call_id: each.id,
    name: each.name.slice(dot + 1),
    ...(dot < 0 ? {} : { namespace: each.name.slice(0, dot) }),
    [key]: each.arguments,
  };
  const events = isFreeform ? "response.custom_tool_call_input" : "response.function_call_arguments";
  return { item, key, events };
}

function wireUsage(usage: Usage) {
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedInputTokens,
      cache_write_tokens: usage.cacheWriteTokens,
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.inputTokens + usage.outputTokens,
  };
}

function errorType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function fullName({ name, namespace }: { name: string; namespace?: string | null | undefined }): string {
  return namespace ? `${namespace}.${name}` : name;
}

/** A hosted tool has no name of its own; a namespace is not a tool, but holds some. */
function toolNames(each: z.output<typeof tool>): string[] {
  const name = each.name ?? each.type;
  return each.tools === undefined ? [name] : each.tools.map((inner) => `${name}.${inner.name}`);
}

function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new TypeError(`not a responses request: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

function textsOf(value: z.output<typeof content>): string[] {
  if (typeof value === "string") return [value];
  return value.flatMap((part) => (/^(?:input_|output_)?text$/.test(part.type) ? [part.text ?? ""] : []));
}
