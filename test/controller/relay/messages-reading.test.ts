import { expect, test } from "vitest";
import { readMessages } from "../../../controller/relay/messages-reading.ts";

function read(...events: unknown[]) {
  const reading = readMessages();
  for (const event of events) reading.event(event);
  return reading.result();
}

const start = (usage: unknown) => ({ type: "message_start", message: { id: "msg_1", model: "m1", usage } });
const end = (usage: unknown, stop_reason: string | null = "end_turn") => ({
  type: "message_delta",
  delta: { stop_reason },
  usage,
});
const BEGUN = {
  input_tokens: 30,
  cache_read_input_tokens: 60,
  cache_creation_input_tokens: 10,
  output_tokens: 1,
};

test("the start's input and the end's output make one statement", () => {
  expect(read(start(BEGUN), end({ output_tokens: 20 })).usage).toEqual({
    state: "known",
    inputTokens: 30,
    outputTokens: 20,
    reasoningTokens: null,
    cacheReadTokens: 60,
    cacheWriteTokens: 10,
    allInputTokens: 100,
    allOutputTokens: 20,
  });
});

test("what the end states replaces what the start stated, nulls do not", () => {
  const later = { input_tokens: 40, cache_read_input_tokens: null, output_tokens: 20 };
  expect(read(start(BEGUN), end(later)).usage).toMatchObject({ inputTokens: 40, cacheReadTokens: 60 });
  expect(read(start({ input_tokens: 0, output_tokens: 0 }), end(later)).usage).toMatchObject({
    inputTokens: 40,
  });
});

test("an answer that was cut keeps its input; its first output figure is none", () => {
  expect(read(start(BEGUN)).usage).toMatchObject({
    state: "unknown",
    inputTokens: 30,
    outputTokens: null,
    allInputTokens: 100,
    allOutputTokens: null,
  });
  expect(read(start(BEGUN), end({ output_tokens: 7 }, null)).usage).toMatchObject({ outputTokens: null });
  expect(read(start(BEGUN), end(undefined)).usage).toMatchObject({ state: "unknown", outputTokens: null });
});

test("thinking that is stated is taken off the output; caches that are not stated leave all of the input unknown", () => {
  const details = { output_tokens_details: { thinking_tokens: 8 } };
  const { usage } = read(start({ input_tokens: 30 }), end({ output_tokens: 20, ...details }));
  expect(usage).toMatchObject({
    state: "known",
    outputTokens: 12,
    reasoningTokens: 8,
    cacheReadTokens: null,
    allInputTokens: null,
    allOutputTokens: 20,
  });
});

test("zeros are known, unless the cache gave something", () => {
  const zero = { input_tokens: 0, output_tokens: 0 };
  expect(read(start(zero), end(zero)).usage.state).toBe("zero");
  expect(read(start({ ...zero, cache_read_input_tokens: 5 }), end(zero)).usage.state).toBe("known");
});

test("message_stop ends an answer without a reason; an error ends nothing", () => {
  expect(read(start(BEGUN), { type: "message_stop" })).toMatchObject({ isTerminal: true, stopReason: null });
  const error = {
    type: "error",
    error: { type: "overloaded_error" },
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  expect(read(start(BEGUN), error)).toMatchObject({
    isTerminal: false,
    isError: true,
    usage: { inputTokens: 30 },
  });
});

test("a whole message states everything; a count of tokens is no answer and no error", () => {
  const whole = (value: unknown) => {
    const reading = readMessages();
    reading.whole(value);
    return reading.result();
  };
  const message = {
    type: "message",
    id: "msg_2",
    model: "m1",
    stop_reason: "end_turn",
    usage: { ...BEGUN, output_tokens: 4 },
  };
  expect(whole(message)).toMatchObject({
    isTerminal: true,
    stopReason: "end_turn",
    usage: { state: "known", outputTokens: 4 },
  });
  expect(whole({ input_tokens: 12 })).toMatchObject({
    isTerminal: false,
    isError: false,
    usageObserved: false,
  });
  expect(whole({ type: "error", error: { type: "x" } })).toMatchObject({ isError: true });
});
