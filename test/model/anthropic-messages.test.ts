// Anthropic Messages alone: how each form of a message is read, the events of a reply in their order, and what
// Claude Code asks beside the conversation.
import { expect, test } from "vitest";
import { anthropicMessages } from "../support/model/anthropic-messages.ts";
import { keyHash } from "../support/model/records.ts";
import { ask, startForTest } from "./client.ts";
import { MESSAGES, piecesOf } from "./wires.ts";

const text = (value: string) => ({ type: "text", text: value, cache_control: { type: "ephemeral" } });
const parse = (messages: unknown, more: object = {}) =>
  anthropicMessages.parse({ model: "m1", max_tokens: 1, messages, ...more });

test("a content may be a text or blocks, and each text of the user stays as it is", () => {
  const row = { role: "user", toolCalls: [], toolResults: [] };
  expect(parse([{ role: "user", content: " Hi\r\n" }]).rows).toEqual([
    { ...row, text: " Hi\r\n", texts: [" Hi\r\n"] },
  ]);
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "x" } };
  expect(parse([{ role: "user", content: [text("a"), image, text("b\n")] }]).rows).toEqual([
    { ...row, text: "a\nb\n", texts: ["a", "b\n"] },
  ]);
});

test("the system is a text or blocks, and what comes later as a message of that role", () => {
  const messages = [
    { role: "user", content: "Hi" },
    { role: "system", content: [text("two")] },
    { role: "assistant", content: "Hello" },
    { role: "system", content: "three" },
  ];
  expect(parse(messages, { system: "one" }).system).toBe("one\ntwo\nthree");
  expect(parse(messages, { system: [text("zero"), text("one")] }).system).toBe("zero\none\ntwo\nthree");
  expect(parse(messages).rows.map(({ role }) => role)).toEqual(["user", "assistant"]);
});

test("results inside a user message are rows of their own, before the text that shares it", () => {
  const { rows, tools } = parse(
    [
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "x" },
          text("Two."),
          { type: "tool_use", id: "t1", name: "Bash", input: { command: "ls" } },
          { type: "tool_use", id: "t2", name: "Bash", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t1", content: "one", is_error: false },
          { type: "tool_result", tool_use_id: "t2", content: [text("two"), { type: "image", source: {} }] },
          { type: "tool_result", tool_use_id: "t3" },
          text("Next."),
        ],
      },
    ],
    {
      tools: [
        { name: "Bash", input_schema: {} },
        { type: "web_search_20250305", name: "web_search" },
      ],
    },
  );
  const result = (callId: string, value: string, texts: string[]) => ({
    role: "tool",
    text: value,
    texts,
    toolCalls: [],
    toolResults: [{ callId, text: value }],
  });
  expect(rows).toEqual([
    {
      role: "assistant",
      text: "Two.",
      texts: ["Two."],
      toolCalls: [
        { id: "t1", name: "Bash", arguments: '{"command":"ls"}' },
        { id: "t2", name: "Bash", arguments: "{}" },
      ],
      toolResults: [],
    },
    result("t1", "one", ["one"]),
    result("t2", "two", ["two"]),
    result("t3", "", []),
    { role: "user", text: "Next.", texts: ["Next."], toolCalls: [], toolResults: [] },
  ]);
  expect(tools).toEqual(["Bash", "web_search"]);
});

test("results alone make no row of the user", () => {
  const content = [{ type: "tool_result", tool_use_id: "t1", content: "one" }];
  expect(parse([{ role: "user", content }]).rows.map(({ role }) => role)).toEqual(["tool"]);
});

for (const [what, body] of Object.entries({
  "no messages": { model: "m1" },
  "a role that is none": { model: "m1", messages: [{ role: "tool", content: "x" }] },
  "a text block without its text": { model: "m1", messages: [{ role: "user", content: [{ type: "text" }] }] },
  "a result without its id": {
    model: "m1",
    messages: [{ role: "user", content: [{ type: "tool_result", content: "x" }] }],
  },
})) {
  test(`is refused: ${what}`, async () => {
    expect(() => anthropicMessages.parse(body)).toThrow(/^not a messages request/);
    const server = await startForTest();
    const response = await fetch(`${server.url}/messages`, { method: "POST", body: JSON.stringify(body) });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
  });
}

test("the events of a reply come in the provider's order, with the input at the start and all at the end", async () => {
  const server = await startForTest({ makeId: () => "1" });
  const usage = { inputTokens: 70, outputTokens: 30, cachedInputTokens: 20, cacheWriteTokens: 10 };
  const toolCalls = [{ name: "Bash", arguments: { command: "ls" } }];
  server.script("go", [{ kind: "reply", text: ["Hel", "lo"], toolCalls, usage }]);
  const { raw } = await ask(server, { wire: MESSAGES, user: "go" });
  const figures = { input_tokens: 40, cache_creation_input_tokens: 10, cache_read_input_tokens: 20 };
  const events = piecesOf(raw, true);
  expect(events).toEqual([
    {
      type: "message_start",
      message: {
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "m1",
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { ...figures, output_tokens: 1 },
      },
    },
    { type: "ping" },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hel" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "lo" } },
    { type: "content_block_stop", index: 0 },
    {
      type: "content_block_start",
      index: 1,
      content_block: { type: "tool_use", id: "toolu_1", name: "Bash", input: {} },
    },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"comman' } },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: 'd":"ls"}' } },
    { type: "content_block_stop", index: 1 },
    {
      type: "message_delta",
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: { ...figures, output_tokens: 30 },
    },
    { type: "message_stop" },
  ]);
  const lines = [...raw.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
  expect(lines).toEqual(events.map(({ type }) => type));
});

test("an error in the stream leaves its block open, and the request without a stream gets the reply", async () => {
  const server = await startForTest();
  const failFirst = {
    times: 1,
    step: { kind: "errorChunk" as const, text: "par", reason: "overloaded" as const },
  };
  server.queue([{ kind: "reply", text: "Whole.", failFirst }]);
  const streamed = await ask(server, { wire: MESSAGES, user: "go" });
  expect(streamed.raw).toMatch(/event: error\ndata: (.*)\n\n$/);
  expect(streamed.raw).not.toContain("content_block_stop");
  const whole = await ask(server, { wire: MESSAGES, user: "go", stream: false });
  expect(JSON.parse(whole.raw)).toMatchObject({
    type: "message",
    role: "assistant",
    content: [{ type: "text", text: "Whole." }],
    stop_reason: "end_turn",
  });
});

test("the key comes as x-api-key or as a bearer, and is not kept", async () => {
  const server = await startForTest({ expectedKey: "right-key" });
  const statusOf = async (headers: Record<string, string>) =>
    (await ask(server, { wire: MESSAGES, user: "x", headers })).status;
  expect(await statusOf({ "x-api-key": "right-key" })).toBe(200);
  expect(await statusOf({ authorization: "Bearer right-key" })).toBe(200);
  expect(await statusOf({ "x-api-key": "", authorization: "Bearer right-key" })).toBe(200);
  expect(await statusOf({ "x-api-key": "wrong-key", authorization: "Bearer right-key" })).toBe(401);
  expect(await statusOf({})).toBe(401);
  expect(server.requests()[0]?.keyHash).toBe(keyHash("right-key"));
  expect(JSON.stringify(server.requests())).not.toMatch(/(?:right|wrong)-key/);
});

test("what is asked beside the conversation is answered and makes no record", async () => {
  const server = await startForTest({ expectedKey: "k" });
  const hello = await fetch(new URL("/api/hello", server.url), { method: "HEAD" });
  expect(hello.status).toBe(200);
  const count = async (content: string, key: string) => {
    const response = await fetch(`${server.url}/messages/count_tokens`, {
      method: "POST",
      headers: { "x-api-key": key },
      body: JSON.stringify({ model: "m1", messages: [{ role: "user", content }] }),
    });
    return { status: response.status, body: (await response.json()) as { input_tokens?: number } };
  };
  const short = await count("x", "k");
  const long = await count("x".repeat(4000), "k");
  expect(Number(long.body.input_tokens) - Number(short.body.input_tokens)).toBeGreaterThanOrEqual(999);
  expect(Number(short.body.input_tokens)).toBeGreaterThan(0);
  expect(await count("x", "wrong")).toMatchObject({
    status: 401,
    body: { type: "error", error: { type: "authentication_error" } },
  });
  expect(server.requests()).toEqual([]);
});

test("a request of a subagent says so in its header", async () => {
  const server = await startForTest();
  const session = { "x-claude-code-session-id": "s1" };
  await ask(server, { wire: MESSAGES, user: "x", headers: session });
  await ask(server, { wire: MESSAGES, user: "x", headers: { ...session, "x-claude-code-agent-id": "a1" } });
  expect(server.mainRequests().map(({ agent }) => agent)).toEqual([null, "a1"]);
});
