/**
 * The events of one streamed answer -> what was said, whether the model was seen to think, and how the stream ended, for each
 * model protocol. Pure: fed the data of server-sent events, one at a time; never throws on what a provider sends.
 */
import * as z from "zod/mini";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { parsedJson } from "../parsed-json.ts";

export interface Answer {
  /** Without thinking. */
  text: string;
  /** Thinking was streamed, or counted by the provider. */
  isThinking: boolean;
  /** The protocol's own last word of a whole answer came. */
  isTerminal: boolean;
  stopReason: string | null;
  /** The stream named an error, or something that is not this protocol's. */
  error: string | null;
  /** The provider's id of the answer, and the model that it says it is. */
  providerId: string | null;
  model: string | null;
}

export interface AnswerReader {
  take(data: string): void;
  end(): Answer;
}

/** Of the answer and of thinking together, in UTF-16 units. Beyond: an error, and the rest is not kept. */
export const ANSWER_CHARS = 256 * 1024;

/** What one event adds; what it does not name stays. */
interface Step {
  text?: string;
  thinking?: string | true;
  isTerminal?: true;
  stopReason?: string | null;
  error?: string;
  providerId?: string | undefined;
  model?: string | undefined;
  /** The whole text, for a provider that streams none of it. */
  wholeText?: string;
}

export function createAnswerReader(protocol: ModelProtocol): AnswerReader {
  const read = READERS[protocol];
  const answer: Answer = {
    text: "",
    isThinking: false,
    isTerminal: false,
    stopReason: null,
    error: null,
    providerId: null,
    model: null,
  };
  let chars = 0;

  function add(step: Step): void {
    const { text = "", thinking = "", wholeText = "" } = step;
    if (thinking !== "") answer.isThinking = true;
    chars += text.length + (thinking === true ? 0 : thinking.length);
    if (chars > ANSWER_CHARS || wholeText.length > ANSWER_CHARS) {
      answer.error ??= `the answer is longer than ${ANSWER_CHARS} characters`;
      return;
    }
    answer.text += text;
    if (answer.text === "") answer.text = wholeText;
    if (step.isTerminal) answer.isTerminal = true;
    answer.stopReason = step.stopReason ?? answer.stopReason;
    answer.error ??= step.error ?? null;
    answer.providerId ??= step.providerId ?? null;
    answer.model ??= step.model ?? null;
  }

  return {
    take(data) {
      if (data.trim() === "[DONE]") return;
      const value = parsedJson(data);
      add(value === undefined ? { error: "an event of the stream is no JSON" } : read(value));
    },
    end() {
      const { thought, rest } = withoutInlineThinking(answer.text);
      return { ...answer, text: rest, isThinking: answer.isThinking || thought };
    },
  };
}

/** Servers that do not take a model's thinking apart stream it as text between these marks, first of all. */
function withoutInlineThinking(text: string): { thought: boolean; rest: string } {
  if (!/^\s*<think>/.test(text)) return { thought: false, rest: text };
  const end = text.indexOf("</think>");
  return { thought: true, rest: end < 0 ? "" : text.slice(end + "</think>".length).trimStart() };
}

const Text = z.nullish(z.string());
const Fault = z.looseObject({
  message: Text,
  type: Text,
  code: z.nullish(z.union([z.string(), z.number()])),
});

function faultText(fault: unknown): string {
  const parsed = Fault.safeParse(fault);
  if (!parsed.success) return typeof fault === "string" && fault !== "" ? fault : "an error without a text";
  const { type, code, message } = parsed.data;
  const name = type ?? code;
  return (
    [name == null ? "" : `${name}`, message ?? ""].filter((part) => part !== "").join(": ") ||
    "an error without a text"
  );
}

const FOREIGN: Step = { error: "an event of the stream does not fit the protocol" };

const Chunk = z.looseObject({
  id: Text,
  model: Text,
  error: z.optional(z.unknown()),
  choices: z.nullish(
    z.array(
      z.looseObject({
        index: z.nullish(z.number()),
        finish_reason: Text,
        delta: z.nullish(
          z.looseObject({
            content: Text,
            reasoning_content: Text,
            reasoning: Text,
            reasoning_text: Text,
            reasoning_details: z.nullish(z.array(z.unknown())),
          }),
        ),
      }),
    ),
  ),
  usage: z.nullish(
    z.looseObject({
      completion_tokens_details: z.nullish(z.looseObject({ reasoning_tokens: z.nullish(z.number()) })),
    }),
  ),
});

/** The last word is the finish reason: `[DONE]` behind it carries nothing of the answer, and some leave it out. */
function readChunk(value: unknown): Step {
  const parsed = Chunk.safeParse(value);
  if (!parsed.success) return FOREIGN;
  const { id, model, error, choices, usage } = parsed.data;
  if (error != null) return { error: faultText(error) };
  const choice = choices?.find(({ index }) => (index ?? 0) === 0);
  const delta = choice?.delta;
  const finish = choice?.finish_reason;
  const isCounted = (usage?.completion_tokens_details?.reasoning_tokens ?? 0) > 0;
  const hasDetails = (delta?.reasoning_details?.length ?? 0) > 0;
  const thinking = delta?.reasoning_content || delta?.reasoning || delta?.reasoning_text || "";
  return {
    text: delta?.content ?? "",
    thinking: thinking === "" && (isCounted || hasDetails) ? true : thinking,
    providerId: id ?? undefined,
    model: model ?? undefined,
    ...(finish == null ? {} : { isTerminal: true as const, stopReason: finish }),
  };
}

const Item = z.looseObject({
  type: Text,
  content: z.nullish(z.array(z.looseObject({ type: Text, text: Text }))),
});
const Response = z.looseObject({
  id: Text,
  model: Text,
  status: Text,
  error: z.optional(z.unknown()),
  incomplete_details: z.nullish(z.looseObject({ reason: Text })),
  output: z.nullish(z.array(Item)),
  usage: z.nullish(
    z.looseObject({
      output_tokens_details: z.nullish(z.looseObject({ reasoning_tokens: z.nullish(z.number()) })),
    }),
  ),
});
const ResponsesEvent = z.looseObject({
  type: z.string(),
  delta: z.optional(z.unknown()),
  item: z.nullish(Item),
  response: z.nullish(Response),
  error: z.optional(z.unknown()),
});

function readResponsesEvent(value: unknown): Step {
  const parsed = ResponsesEvent.safeParse(value);
  if (!parsed.success) {
    // A gateway's own error in the place of an event.
    const bare = z.looseObject({ error: z.unknown() }).safeParse(value);
    return bare.success && bare.data.error != null ? { error: faultText(bare.data.error) } : FOREIGN;
  }
  const { type, delta, item, response, error } = parsed.data;
  const piece = typeof delta === "string" ? delta : "";
  const isCounted = (response?.usage?.output_tokens_details?.reasoning_tokens ?? 0) > 0;
  const isReasoning = item?.type === "reasoning" || isCounted;
  const known: Step = {
    providerId: response?.id ?? undefined,
    model: response?.model ?? undefined,
    ...(isReasoning ? { thinking: true as const } : {}),
  };
  if (type === "response.output_text.delta" || type === "response.refusal.delta") return { text: piece };
  if (/^response\.reasoning\w*\.delta$/.test(type)) return { thinking: piece };
  switch (type) {
    case "response.completed":
      return {
        ...known,
        isTerminal: true,
        stopReason: response?.status ?? "completed",
        wholeText: textOf(response),
      };
    case "response.incomplete":
      return { ...known, isTerminal: true, stopReason: response?.incomplete_details?.reason ?? "incomplete" };
    case "response.failed":
      return { ...known, error: faultText(response?.error) };
    case "error":
      return { error: faultText(error ?? value) };
    default:
      return known;
  }
}

function textOf(response: z.infer<typeof Response> | null | undefined): string {
  const parts = (response?.output ?? []).flatMap(({ type, content }) =>
    type === "message" ? (content ?? []) : [],
  );
  return parts.flatMap(({ type, text }) => (type === "output_text" ? [text ?? ""] : [])).join("");
}

const MessagesEvent = z.looseObject({
  type: z.string(),
  message: z.nullish(z.looseObject({ id: Text, model: Text })),
  content_block: z.nullish(z.looseObject({ type: Text, text: Text })),
  delta: z.nullish(z.looseObject({ type: Text, text: Text, thinking: Text, stop_reason: Text })),
  error: z.optional(z.unknown()),
});

function readMessagesEvent(value: unknown): Step {
  const parsed = MessagesEvent.safeParse(value);
  if (!parsed.success) {
    const bare = z.looseObject({ error: z.unknown() }).safeParse(value);
    return bare.success && bare.data.error != null ? { error: faultText(bare.data.error) } : FOREIGN;
  }
  const { type, message, content_block: block, delta, error } = parsed.data;
  switch (type) {
    case "message_start":
      return { providerId: message?.id ?? undefined, model: message?.model ?? undefined };
    case "content_block_start":
      // Thinking may come encrypted, or with nothing of it shown: its block tells.
      return {
        text: block?.text ?? "",
        ...(/thinking$/.test(block?.type ?? "") ? { thinking: true as const } : {}),
      };
    case "content_block_delta":
      return { text: delta?.text ?? "", thinking: delta?.thinking ?? "" };
    case "message_delta":
      return { stopReason: delta?.stop_reason ?? null };
    case "message_stop":
      return { isTerminal: true };
    case "error":
      return { error: faultText(error) };
    default:
      return {};
  }
}

const READERS: Readonly<Record<ModelProtocol, (value: unknown) => Step>> = {
  "chat-completions": readChunk,
  responses: readResponsesEvent,
  messages: readMessagesEvent,
};
