import { expect, test } from "vitest";
import { readChatCompletions } from "../../../controller/relay/chat-completions-reading.ts";

function read(...events: unknown[]) {
  const reading = readChatCompletions();
  for (const event of events) reading.event(event);
  return reading.result();
}

const chunk = (finish: string | null, more: object = {}) => ({
  id: "chatcmpl-1",
  model: "m1",
  choices: [{ index: 0, delta: {}, finish_reason: finish }],
  ...more,
});
const usage = (input: number, output: number) => ({ prompt_tokens: input, completion_tokens: output });

test("figures that grow with each frame: the last of those from the end on count", () => {
  const read3 = read(chunk(null, { usage: usage(9, 1) }), chunk("stop", { usage: usage(9, 2) }), {
    choices: [],
    usage: usage(9, 3),
  });
  expect(read3.usage).toMatchObject({ state: "known", inputTokens: 9, outputTokens: 3 });
});

test("a broken statement behind a good one takes nothing back", () => {
  const { usage: kept } = read(chunk("stop", { usage: usage(9, 2) }), { choices: [], usage: {} });
  expect(kept).toMatchObject({ state: "known", outputTokens: 2 });
});

test("a statement in the choice counts where there is no other", () => {
  const choice = { index: 0, finish_reason: "stop", usage: usage(5, 6) };
  expect(read({ choices: [choice] }).usage).toMatchObject({ inputTokens: 5, outputTokens: 6 });
});

test("a frame with an error ends nothing, whatever finish and figures stand beside it", () => {
  const error = { code: 502, message: "provider disconnected" };
  const ended = read(chunk(null), chunk("error", { error, usage: usage(1, 1) }));
  expect(ended).toMatchObject({
    isError: true,
    isTerminal: false,
    stopReason: null,
    usage: { state: "unknown" },
  });
  expect(read(chunk("stop", { error: null, usage: usage(1, 1) }))).toMatchObject({
    isError: false,
    isTerminal: true,
  });
});

test("ids, models and reasons: the first good one stays, what is none is null", () => {
  const first = read(
    { id: "gen-1", model: "no name" },
    chunk(null),
    { id: "chatcmpl-2", model: "m2" },
    chunk("length"),
  );
  expect(first).toMatchObject({ providerId: "chatcmpl-1", model: "m1", stopReason: "length" });
  expect(read(7, null, [], "x", { choices: 4 })).toMatchObject({
    providerId: null,
    model: null,
    isTerminal: false,
  });
});

test("a whole answer without a reason has come to its end", () => {
  const reading = readChatCompletions();
  reading.whole({ choices: [{ message: {} }], usage: usage(2, 3) });
  expect(reading.result()).toMatchObject({ isTerminal: true, stopReason: null, usage: { state: "known" } });
});
