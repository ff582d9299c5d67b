// What the loopback model puts on the wire for the real CLIs, read alongside: streams, whole answers, errors and cuts.
import { expect, test } from "vitest";
import { anthropicMessages } from "../../support/model/anthropic-messages.ts";
import { chatCompletions } from "../../support/model/chat-completions.ts";
import type { NeutralRequest, Usage, WireProtocol } from "../../support/model/neutral.ts";
import { responses } from "../../support/model/responses.ts";
import { readIn } from "./streams.ts";

const USAGE: Usage = {
  inputTokens: 100,
  outputTokens: 20,
  cachedInputTokens: 60,
  cacheWriteTokens: 10,
  reasoningTokens: 5,
};
const REQUEST: NeutralRequest = {
  model: "m1",
  system: "",
  rows: [],
  tools: ["bash"],
  freeformTools: [],
  stream: true,
  wantsUsage: true,
};
const CALL = { id: "call_1", name: "bash", arguments: '{"command":"ls"}' };

/** Messages has no figure for reasoning here: it is part of the output. */
const CASES = [
  {
    protocol: "chat-completions",
    wire: chatCompletions,
    id: "chatcmpl-7",
    output: { outputTokens: 15, reasoningTokens: 5 },
  },
  { protocol: "responses", wire: responses, id: "resp_7", output: { outputTokens: 15, reasoningTokens: 5 } },
  {
    protocol: "messages",
    wire: anthropicMessages,
    id: "msg_7",
    output: { outputTokens: 20, reasoningTokens: null },
  },
] as const;
const INPUT = {
  inputTokens: 30,
  cacheReadTokens: 60,
  cacheWriteTokens: 10,
  allInputTokens: 100,
  allOutputTokens: 20,
};

function begun(wire: WireProtocol) {
  const writer = wire.streamWriter(REQUEST, "7", 0);
  return { writer, head: writer.start(USAGE) + writer.text("some text") };
}

test.for(CASES)("$protocol: a streamed answer with a tool", async ({ protocol, wire, id, output }) => {
  const { writer, head } = begun(wire);
  const bytes = Buffer.from(head + writer.toolCall(CALL) + writer.finish("toolCalls", USAGE));
  const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
  expect(await readIn(protocol, pieces)).toMatchObject({
    usage: { state: "known", ...INPUT, ...output },
    isTerminal: true,
    isError: false,
    isWhollyRead: true,
    model: "m1",
    providerId: id,
  });
});

test.for(CASES)("$protocol: a streamed answer that states nothing is unknown", async ({ protocol, wire }) => {
  const writer = wire.streamWriter(REQUEST, "7", 0);
  const bytes = Buffer.from(writer.start(null) + writer.text("some text") + writer.finish("stop", null));
  expect(await readIn(protocol, [bytes])).toMatchObject({
    usage: { state: "unknown", inputTokens: null },
    usageObserved: false,
    isTerminal: true,
  });
});

test.for(CASES)(
  "$protocol: an answer that breaks off, and an error in its middle",
  async ({ protocol, wire }) => {
    const { writer, head } = begun(wire);
    const early = protocol === "messages" ? 30 : null;
    const unknown = { state: "unknown", inputTokens: early, outputTokens: null };
    expect(await readIn(protocol, [Buffer.from(head)])).toMatchObject({ usage: unknown, isTerminal: false });
    const failed = await readIn(protocol, [Buffer.from(head + writer.error("overloaded", "overloaded"))]);
    expect(failed).toMatchObject({ usage: unknown, isError: true });
  },
);

test.for(CASES)(
  "$protocol: a whole answer, and an error in its place",
  async ({ protocol, wire, id, output }) => {
    const json = (value: unknown) =>
      readIn(protocol, [Buffer.from(JSON.stringify(value))], { contentType: "application/json" });
    const reply = { text: "some text", toolCalls: [CALL], finish: "toolCalls", usage: USAGE } as const;
    expect(await json(wire.whole({ ...REQUEST, stream: false }, reply, "7", 0))).toMatchObject({
      usage: { state: "known", ...INPUT, ...output },
      isTerminal: true,
      providerId: id,
    });
    expect(await json(wire.error(529, "overloaded"))).toMatchObject({ isError: true, isTerminal: false });
    expect(await json(wire.contextOverflow("too long").body)).toMatchObject({
      isError: true,
      isTerminal: false,
    });
  },
);
