// Streams of the three protocols, frame by frame, with the statement of usage at a place of the test's choice.
import { type CallReading, createCallReader } from "../../../controller/relay/call-reader.ts";
import type { ModelProtocol } from "../../../protocol/model-protocol.ts";

/** Where the statement stands: in the frame that ends the answer, behind it, before it, nowhere; or zeros in that frame. */
export const PLACES = ["same", "after", "before", "absent", "zero"] as const;
export type Place = (typeof PLACES)[number];
export const KINDS = ["text", "tool"] as const;
type Kind = (typeof KINDS)[number];

export interface Shape {
  place: Place;
  kind: Kind;
  /** The protocol's last word comes: `[DONE]`, or `message_stop`. */
  done: boolean;
}

/** All of the input is 100: 60 came from a cache, 10 went into one. Of 20 of output 5 are reasoning. */
export const STATED: Readonly<Record<ModelProtocol, object>> = {
  "chat-completions": {
    prompt_tokens: 100,
    completion_tokens: 20,
    total_tokens: 120,
    prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
    completion_tokens_details: { reasoning_tokens: 5 },
  },
  responses: {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 5 },
    total_tokens: 120,
  },
  messages: {
    input_tokens: 30,
    cache_read_input_tokens: 60,
    cache_creation_input_tokens: 10,
    output_tokens: 20,
    output_tokens_details: { thinking_tokens: 5 },
  },
};

const ZERO: Readonly<Record<ModelProtocol, object>> = {
  "chat-completions": { prompt_tokens: 0, completion_tokens: 0 },
  responses: { input_tokens: 0, output_tokens: 0 },
  messages: { input_tokens: 0, output_tokens: 0 },
};

export const ANSWER_IDS: Readonly<Record<ModelProtocol, string>> = {
  "chat-completions": "chatcmpl-1",
  responses: "resp_1",
  messages: "msg_1",
};

export const frame = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;

export function stream(protocol: ModelProtocol, shape: Shape): string {
  return WRITERS[protocol](shape).join("");
}

const WRITERS: Readonly<Record<ModelProtocol, (shape: Shape) => string[]>> = {
  "chat-completions"({ place, kind, done }) {
    const head = { id: "chatcmpl-1", object: "chat.completion.chunk", model: "m1" };
    const usage = place === "zero" ? ZERO["chat-completions"] : STATED["chat-completions"];
    const call = { index: 0, id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
    const delta = kind === "text" ? { content: 'usage {"prompt_tokens":1}' } : { tool_calls: [call] };
    const chunk = (given: object, finish: string | null, more: object = {}) =>
      frame({ ...head, choices: [{ index: 0, delta: given, finish_reason: finish }], ...more });
    return [
      ": a comment\n\n",
      chunk({ role: "assistant" }, null, { usage: null }),
      chunk(delta, null, place === "before" ? { usage } : {}),
      chunk(
        {},
        kind === "text" ? "stop" : "tool_calls",
        place === "same" || place === "zero" ? { usage } : {},
      ),
      ...(place === "after" ? [frame({ ...head, choices: [], usage })] : []),
      ...(done ? ["data: [DONE]\n\n"] : []),
    ];
  },
  responses({ place, kind, done }) {
    const usage = place === "zero" ? ZERO.responses : STATED.responses;
    const head = { id: "resp_1", object: "response", model: "m1" };
    const event = (type: string, value: object) =>
      `event: ${type}\n${frame({ type, sequence_number: 0, ...value })}`;
    const item =
      kind === "text"
        ? { type: "message", content: [{ type: "output_text", text: '"usage":{"input_tokens":1}' }] }
        : { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" };
    const running = { ...head, status: "in_progress", usage: place === "before" ? usage : null };
    const isIn = place === "same" || place === "zero";
    return [
      event("response.created", { response: { ...head, status: "in_progress", usage: null } }),
      event("response.in_progress", { response: running }),
      event("response.output_item.done", { output_index: 0, item }),
      event("response.completed", {
        response: { ...head, status: "completed", output: [item], ...(isIn ? { usage } : {}) },
      }),
      ...(place === "after" ? [event("response.done", { response: { id: "resp_1", usage } })] : []),
      ...(done ? ["data: [DONE]\n\n"] : []),
    ];
  },
  messages({ place, kind, done }) {
    const usage = place === "zero" ? ZERO.messages : STATED.messages;
    const event = (type: string, value: object) => `event: ${type}\n${frame({ type, ...value })}`;
    const head = { id: "msg_1", type: "message", role: "assistant", model: "m1", content: [] };
    const [block, delta] =
      kind === "text"
        ? [
            { type: "text", text: "" },
            { type: "text_delta", text: '"usage":{"output_tokens":9}' },
          ]
        : [
            { type: "tool_use", id: "toolu_1", name: "f", input: {} },
            { type: "input_json_delta", partial_json: "{}" },
          ];
    const end = { stop_reason: kind === "text" ? "end_turn" : "tool_use", stop_sequence: null };
    const isIn = place === "same" || place === "zero";
    return [
      event("message_start", { message: head }),
      event("ping", {}),
      event("content_block_start", { index: 0, content_block: block }),
      event("content_block_delta", { index: 0, delta }),
      event("content_block_stop", { index: 0 }),
      ...(place === "before" ? [event("message_delta", { delta: { stop_reason: null }, usage })] : []),
      event("message_delta", { delta: end, ...(isIn ? { usage } : {}) }),
      ...(place === "after" ? [event("message_delta", { delta: {}, usage })] : []),
      ...(done ? [event("message_stop", {})] : []),
    ];
  },
};

/** Reads a body that comes in these pieces. */
export async function readIn(
  protocol: ModelProtocol,
  pieces: readonly Buffer[],
  options: Partial<Parameters<typeof createCallReader>[0]> = {},
): Promise<CallReading> {
  const reader = createCallReader({
    protocol,
    contentType: "text/event-stream",
    contentCoding: null,
    ...options,
  });
  for (const piece of pieces) reader.take(piece);
  return await reader.end();
}
