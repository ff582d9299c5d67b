import { expect, test } from "vitest";
import {
  ANSWER_CHARS,
  type Answer,
  createAnswerReader,
} from "../../../controller/preflight/answer-reader.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { THINKING } from "../../stand-ins/recalling-model.ts";
import { anthropicMessages } from "../../support/model/anthropic-messages.ts";
import { chatCompletions } from "../../support/model/chat-completions.ts";
import type { ErrorReason, FinishReason } from "../../support/model/neutral.ts";
import { responses } from "../../support/model/responses.ts";

const WIRES = { "chat-completions": chatCompletions, responses, messages: anthropicMessages } as const;
const USAGE = {
  inputTokens: 9,
  outputTokens: 9,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};
const REQUEST = {
  model: "m1",
  system: "",
  rows: [],
  tools: [],
  freeformTools: [],
  stream: true,
  wantsUsage: true,
};

function read(protocol: ModelProtocol, data: readonly string[]): Answer {
  const reader = createAnswerReader(protocol);
  for (const each of data) reader.take(each);
  return reader.end();
}

/** The data of a stream that the loopback model writes. */
function streamed(
  protocol: ModelProtocol,
  {
    texts = ["It is ", "so."],
    finish = "stop" as FinishReason | ErrorReason | null,
    extra = "",
    usage = USAGE,
  } = {},
): string[] {
  const writer = WIRES[protocol].streamWriter(REQUEST, "id1", 1_000_000);
  const end =
    finish === null
      ? ""
      : ["stop", "length", "toolCalls"].includes(finish)
        ? writer.finish(finish as FinishReason, usage)
        : writer.error("it broke", finish as ErrorReason);
  const stream = [writer.start(usage), extra, ...texts.map((text) => writer.text(text)), end].join("");
  return [...stream.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => data);
}

const PROTOCOLS = ModelProtocol.options;
const PREFIX = { "chat-completions": "chatcmpl-", responses: "resp_", messages: "msg_" } as const;

test.for(PROTOCOLS)("%s: a whole answer", (protocol) => {
  const answer = read(protocol, streamed(protocol));
  expect(answer).toMatchObject({
    text: "It is so.",
    isThinking: false,
    isTerminal: true,
    error: null,
    model: "m1",
  });
  expect(answer.providerId).toBe(`${PREFIX[protocol]}id1`);
  expect(answer.stopReason).toBe(
    { "chat-completions": "stop", responses: "completed", messages: "end_turn" }[protocol],
  );
});

test.for(PROTOCOLS)("%s: thinking is seen, and is no part of the answer", (protocol) => {
  const answer = read(protocol, streamed(protocol, { extra: THINKING[protocol] }));
  expect(answer).toMatchObject({ text: "It is so.", isThinking: true, isTerminal: true, error: null });
});

test.for(PROTOCOLS)("%s: a stream without its last word is not terminal", (protocol) => {
  expect(read(protocol, streamed(protocol, { finish: null }))).toMatchObject({
    text: "It is so.",
    isTerminal: false,
    stopReason: null,
    error: null,
  });
});

test.for(PROTOCOLS)("%s: an answer that was cut by its length says so", (protocol) => {
  const { stopReason, isTerminal } = read(protocol, streamed(protocol, { finish: "length" }));
  const reasons = { "chat-completions": "length", responses: "max_output_tokens", messages: "max_tokens" };
  expect({ stopReason, isTerminal }).toEqual({ stopReason: reasons[protocol], isTerminal: true });
});

test.for(PROTOCOLS)("%s: an error in the stream is told with its text", (protocol) => {
  for (const reason of ["server", "overloaded", "rateLimit"] as const) {
    const { error, isTerminal } = read(protocol, streamed(protocol, { finish: reason }));
    expect(error).toContain("it broke");
    expect(isTerminal).toBe(false);
  }
});

test.for(PROTOCOLS)("%s: what does not fit is an error, and what came before is kept", (protocol) => {
  for (const bad of [
    "{",
    "1",
    "null",
    '"x"',
    "[]",
    '{"type":1,"choices":1}',
    '{"error":{"message":"of a gateway"}}',
  ]) {
    const answer = read(protocol, [...streamed(protocol, { finish: null }), bad]);
    expect(answer.text, bad).toBe("It is so.");
    expect(answer.error, bad).not.toBeNull();
  }
});

test("reasoning that is only counted is thinking", () => {
  const usage = { ...USAGE, reasoningTokens: 5 };
  expect(read("chat-completions", streamed("chat-completions", { usage })).isThinking).toBe(true);
  expect(read("responses", streamed("responses", { usage })).isThinking).toBe(true);
});

test.for([
  ["reasoning of other servers", "chat-completions", { choices: [{ delta: { reasoning: "hm" } }] }],
  [
    "details of reasoning",
    "chat-completions",
    { choices: [{ delta: { reasoning_details: [{ type: "x" }] } }] },
  ],
  ["a reasoning item", "responses", { type: "response.output_item.added", item: { type: "reasoning" } }],
  ["reasoning text", "responses", { type: "response.reasoning_text.delta", delta: "hm" }],
  ["a block of thinking", "messages", { type: "content_block_start", content_block: { type: "thinking" } }],
  [
    "encrypted thinking",
    "messages",
    { type: "content_block_start", content_block: { type: "redacted_thinking" } },
  ],
] as const)("%s is thinking", ([, protocol, event]) => {
  const answer = read(protocol, [JSON.stringify(event)]);
  expect(answer).toMatchObject({ isThinking: true, text: "", error: null });
});

test("thinking within the text stands before the answer, and is taken out of it", () => {
  const text = (texts: string[]) => read("chat-completions", streamed("chat-completions", { texts }));
  expect(text(["<think>it was amber", "-1000</think>\n\nIt is so."])).toMatchObject({
    text: "It is so.",
    isThinking: true,
  });
  expect(text(["<think>it was amber-1000 and"])).toMatchObject({ text: "", isThinking: true });
  expect(text(["It is <think>."])).toMatchObject({ text: "It is <think>.", isThinking: false });
});

test("a response that streams no text and holds it whole is read", () => {
  const output = [{ type: "message", content: [{ type: "output_text", text: "Whole." }] }];
  const event = { type: "response.completed", response: { id: "resp_1", status: "completed", output } };
  expect(read("responses", [JSON.stringify(event)])).toMatchObject({ text: "Whole.", isTerminal: true });
});

test("an answer beyond the limit is an error, and no more of it is kept", () => {
  const data = JSON.stringify({ choices: [{ delta: { content: "x".repeat(ANSWER_CHARS / 2) } }] });
  const answer = read("chat-completions", [data, data, data, data]);
  expect(answer.text).toHaveLength(ANSWER_CHARS);
  expect(answer.error).toContain(`longer than ${ANSWER_CHARS}`);
});
