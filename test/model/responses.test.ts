// OpenAI Responses alone: how each form of item is read, and the events of a reply in their order.
import { expect, test } from "vitest";
import { responses } from "../support/model/responses.ts";
import { ask, startForTest } from "./client.ts";
import { type Json, piecesOf, RESPONSES } from "./wires.ts";

const message = (role: string, ...texts: string[]) => ({
  type: "message",
  id: "msg_1",
  role,
  content: texts.map((text) => ({ type: role === "assistant" ? "output_text" : "input_text", text })),
});
const parse = (input: unknown, more: object = {}) => responses.parse({ model: "m1", input, ...more });
const rolesOf = (input: unknown) => parse(input).rows.map(({ role }) => role);

test("an input may be a mere text, or an item without a type", () => {
  const row = { role: "user", text: "Hi", texts: ["Hi"], toolCalls: [], toolResults: [] };
  expect(parse("Hi").rows).toEqual([row]);
  expect(parse([{ role: "user", content: "Hi" }]).rows).toEqual([row]);
  expect(parse("Hi")).toMatchObject({ stream: false, system: "", tools: [] });
});

test("instructions, system and developer items are the system", () => {
  const input = [message("developer", "two", "three"), message("user", "Hi"), message("system", "four")];
  expect(parse(input, { instructions: "one" }).system).toBe("one\ntwo\nthree\nfour");
  expect(rolesOf(input)).toEqual(["user"]);
});

test("what the model said at once is one row, its results rows of their own, whatever stands between", () => {
  const { rows } = parse([
    message("user", "a", "b\r\n"),
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" },
    message("assistant", "Looking."),
    { type: "function_call", id: "fc_1", call_id: "c1", name: "exec_command", arguments: '{"cmd": "ls"}' },
    { type: "web_search_call", id: "ws_1", status: "completed" },
    {
      type: "function_call",
      call_id: "c2",
      name: "spawn_agent",
      namespace: "multi_agent_v1",
      arguments: "{}",
    },
    { type: "function_call_output", id: "fco_1", call_id: "c1", output: "one" },
    { type: "function_call_output", call_id: "c2", output: [{ type: "input_text", text: "two" }] },
    { type: "custom_tool_call", call_id: "c3", name: "apply_patch", input: "*** Begin Patch" },
    { type: "custom_tool_call_output", call_id: "c3", output: "three" },
    {
      type: "local_shell_call",
      call_id: "c4",
      status: "completed",
      action: { type: "exec", command: ["ls"] },
    },
    message("assistant", "Done."),
  ]);
  expect(rows).toEqual([
    { role: "user", text: "a\nb\r\n", texts: ["a", "b\r\n"], toolCalls: [], toolResults: [] },
    {
      role: "assistant",
      text: "Looking.",
      texts: ["Looking."],
      toolCalls: [
        { id: "c1", name: "exec_command", arguments: '{"cmd": "ls"}' },
        { id: "c2", name: "multi_agent_v1.spawn_agent", arguments: "{}" },
      ],
      toolResults: [],
    },
    {
      role: "tool",
      text: "one",
      texts: ["one"],
      toolCalls: [],
      toolResults: [{ callId: "c1", text: "one" }],
    },
    {
      role: "tool",
      text: "two",
      texts: ["two"],
      toolCalls: [],
      toolResults: [{ callId: "c2", text: "two" }],
    },
    {
      role: "assistant",
      text: "",
      texts: [],
      toolCalls: [{ id: "c3", name: "apply_patch", arguments: "*** Begin Patch" }],
      toolResults: [],
    },
    {
      role: "tool",
      text: "three",
      texts: ["three"],
      toolCalls: [],
      toolResults: [{ callId: "c3", text: "three" }],
    },
    { role: "assistant", text: "Done.", texts: ["Done."], toolCalls: [], toolResults: [] },
  ]);
});

test("tools go by their name, hosted ones by their type, those of a namespace by both names", () => {
  const tools = [
    { type: "function", name: "exec_command", parameters: {} },
    { type: "custom", name: "apply_patch" },
    { type: "namespace", name: "multi_agent_v1", tools: [{ type: "function", name: "spawn_agent" }] },
    { type: "web_search", external_web_access: false },
  ];
  const request = parse("Hi", { tools });
  expect(request.tools).toEqual(["exec_command", "apply_patch", "multi_agent_v1.spawn_agent", "web_search"]);
  expect(request.freeformTools).toEqual(["apply_patch"]);
});

for (const [what, body] of Object.entries({
  "no input": { model: "m1" },
  "an input of a number": { model: "m1", input: 1 },
  "a message of no known role": { model: "m1", input: [{ type: "message", role: "x", content: "y" }] },
  "a call without its id": { model: "m1", input: [{ type: "function_call", name: "x", arguments: "{}" }] },
})) {
  test(`is refused: ${what}`, async () => {
    expect(() => responses.parse(body)).toThrow(/^not a responses request/);
    const server = await startForTest();
    const response = await fetch(`${server.url}/responses`, { method: "POST", body: JSON.stringify(body) });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error" } });
  });
}

test("the events of a reply come numbered and in the provider's order, each text and call as it went", async () => {
  const server = await startForTest({ makeId: () => "1", clock: { now: () => 5500, sleep: async () => {} } });
  const toolCalls = [{ name: "multi_agent_v1.spawn_agent", arguments: '{"message":"go"}' }];
  server.script("go", [{ kind: "reply", text: ["Hel", "lo"], toolCalls }]);
  const { raw } = await ask(server, { wire: RESPONSES, user: "go" });
  const events = piecesOf(raw, true);
  expect(events.map(({ type }) => type)).toEqual([
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.completed",
  ]);
  expect(events.map(({ sequence_number: at }) => at)).toEqual(events.map((_, at) => at));
  const lines = [...raw.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
  expect(lines).toEqual(events.map(({ type }) => type));
  const text = { type: "output_text", text: "Hello", annotations: [] };
  const said = { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [text] };
  const called = {
    id: "fc_1_1",
    type: "function_call",
    status: "completed",
    call_id: "call_1",
    name: "spawn_agent",
    namespace: "multi_agent_v1",
    arguments: '{"message":"go"}',
  };
  expect(events[0]).toMatchObject({
    response: { id: "resp_1", object: "response", created_at: 5, status: "in_progress", output: [] },
  });
  expect(events[9]).toMatchObject({
    output_index: 1,
    item: { ...called, status: "in_progress", arguments: "" },
  });
  expect(events.slice(10, 12).map(({ item_id, delta }: Json) => [item_id, delta])).toEqual([
    ["fc_1_1", '{"messag'],
    ["fc_1_1", 'e":"go"}'],
  ]);
  expect(events.at(-1)?.response).toMatchObject({
    status: "completed",
    output: [said, called],
    usage: { input_tokens: 100, output_tokens: 10, total_tokens: 110 },
  });
});

test("a freeform tool is called with its text, in items of its own", async () => {
  const server = await startForTest({ makeId: () => "1" });
  const patch = "*** Begin Patch\n*** End Patch";
  server.script("go", [{ kind: "reply", toolCalls: [{ name: "apply_patch", arguments: patch }] }]);
  const tools = [{ type: "custom", name: "apply_patch" }];
  for (const stream of [true, false]) {
    const response = await fetch(`${server.url}/responses`, {
      method: "POST",
      body: JSON.stringify({ model: "m1", input: "go", tools, stream }),
    });
    const pieces = piecesOf(await response.text(), stream);
    const done = stream ? pieces.at(-1)?.response : pieces[0];
    expect(done.output).toEqual([
      {
        id: "ctc_1_0",
        type: "custom_tool_call",
        status: "completed",
        call_id: "call_1",
        name: "apply_patch",
        input: patch,
      },
    ]);
    if (!stream) continue;
    const deltas = pieces.filter(({ type }) => type === "response.custom_tool_call_input.delta");
    expect(deltas.map(({ delta }) => delta).join("")).toBe(patch);
  }
});

test("a thread of its own in the session of another is a subagent", async () => {
  const server = await startForTest();
  const asked = (headers: Record<string, string>) => ask(server, { wire: RESPONSES, user: "x", headers });
  await asked({ "session-id": "s1", "thread-id": "s1" });
  await asked({ "session-id": "s1", "thread-id": "t2" });
  await asked({ "thread-id": "t3" });
  expect(server.mainRequests().map(({ agent }) => agent)).toEqual([null, "t2", null]);
});
