import { expect, test } from "vitest";
import { createAgents } from "../../../../bridge/drivers/claude/agents.ts";
import {
  createTurnView,
  type TurnView,
  type ViewChange,
} from "../../../../bridge/drivers/claude/turn-view.ts";
import { known, turnOf } from "./captured.ts";

const OWN = "own-uuid";

function view(): TurnView {
  return createTurnView({ ownMessage: OWN, agents: createAgents("root"), earlierTail: null });
}

const life = (state: string, uuid = OWN) => known({ type: "command_lifecycle", command_uuid: uuid, state });
const rowOf = (text: string) => `row-of-${text.replaceAll(/\W/g, "-")}`;
const said = (text: string, more: Record<string, unknown> = {}) =>
  known({
    type: "assistant",
    uuid: rowOf(text),
    message: { id: `msg of ${text}`, model: "m1", content: [{ type: "text", text }] },
    ...more,
  });
const result = (more: Record<string, unknown> = {}) =>
  known({
    type: "result",
    subtype: "success",
    is_error: false,
    num_turns: 1,
    terminal_reason: "completed",
    ...more,
  });
const tasks = (...types: string[]) =>
  known({
    type: "system",
    subtype: "background_tasks_changed",
    tasks: types.map((task_type, at) => ({ task_id: `t${at}`, task_type, description: `task ${at}` })),
  });
const init = known({ type: "system", subtype: "init" });

const kinds = (changes: ViewChange[]) => changes.map(({ kind }) => kind);
const feed = (turn: TurnView, ...messages: Array<ReturnType<typeof known>>) =>
  messages.flatMap((message) => turn.take(message));

test("nothing before the own message's start is the turn's: no text, no end, no retry", () => {
  const turn = view();
  const retry = known({ type: "system", subtype: "api_retry", attempt: 1 });
  expect(feed(turn, init, said("Somebody else's."), retry, result(), life("queued", "another"))).toEqual([]);
  expect(feed(turn, life("queued"), said("Still not."), result())).toEqual([]);
  expect(kinds(feed(turn, life("started")))).toEqual(["own_event"]);
});

test("the message played back is its start too, where no other word came", () => {
  const turn = view();
  const replay = known({ type: "user", uuid: OWN, isReplay: true, message: { content: "x" } });
  expect(kinds(feed(turn, replay, life("started")))).toEqual(["own_event"]);
});

test("a message that is taken out of the queue has aborted the turn before anything ran", () => {
  const changes = feed(view(), life("queued"), life("cancelled"));
  expect(kinds(changes)).toEqual(["own_event", "native_end"]);
  expect(changes[1]).toMatchObject({ status: "aborted", tail: null });
});

test("law 6: nothing moves the turn behind its end", () => {
  const turn = view();
  expect(kinds(feed(turn, life("started"), said("Yes."), result())).at(-1)).toBe("native_end");
  expect(feed(turn, said("More."), result(), tasks("local_agent"), life("cancelled"))).toEqual([]);
  expect(turn.graceOver()).toEqual([]);
});

test("what the CLI says in the model's place is no answer", () => {
  const error = said("API Error: 529", { is_api_error_message: true });
  const own = known({
    type: "assistant",
    uuid: "u",
    message: { id: "m", model: "<synthetic>", content: [{ type: "text", text: "No response requested." }] },
  });
  const changes = feed(view(), life("started"), error, own, result());
  expect(kinds(changes)).not.toContain("text");
  expect(changes.at(-1)).toMatchObject({ status: "failed", error: { name: "NoModelCall" }, tail: null });
});

test("the end waits for subagents and for what the CLI makes of them, and the text of all of it is the turn's", () => {
  const turn = view();
  feed(turn, life("started"), tasks("local_agent"));
  expect(kinds(feed(turn, said("Gone on."), result()))).toEqual(["progress", "text"]);
  expect(turn.graceOver()).toEqual([]);
  expect(kinds(feed(turn, tasks()))).toEqual(["end_expected"]);
  expect(kinds(feed(turn, init))).toEqual(["end_not_expected"]);
  expect(turn.graceOver()).toEqual([]);
  expect(kinds(feed(turn, said("Noticed."), result()))).toEqual(["progress", "text", "end_expected"]);
  expect(turn.graceOver()).toMatchObject([
    { kind: "native_end", status: "completed", tail: { id: rowOf("Noticed.") } },
  ]);
});

test("a failed turn stays failed, whatever its subagents bring later", () => {
  const turn = view();
  feed(turn, life("started"), tasks("local_agent"), said("A."));
  feed(turn, result({ is_error: true, terminal_reason: "api_error" }), tasks(), init, said("B."), result());
  expect(turn.graceOver()).toMatchObject([{ status: "failed", error: { name: "api_error" } }]);
});

test("a background shell holds nothing and is named", () => {
  const changes = feed(view(), life("started"), said("Yes."), tasks("local_bash", "monitor"), result());
  expect(changes.at(-1)).toMatchObject({ kind: "native_end", shells: ["task 0", "task 1"] });
});

test("law 10: what an attempt has streamed is withdrawn when it is given up, and not only when the next one answers", () => {
  const turn = view();
  const stream = (event: object) => known({ type: "stream_event", event });
  feed(
    turn,
    life("started"),
    stream({ type: "message_start", message: { id: "m" } }),
    stream({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    stream({ type: "content_block_delta", delta: { type: "text_delta", text: "Half" } }),
  );
  const retry = known({ type: "system", subtype: "api_retry", attempt: 1 });
  expect(kinds(feed(turn, retry))).toEqual(["withdrawn", "waiting"]);
});

test("a retry of a child is waited for as its own, and no retry of the main chain", () => {
  const turn = view();
  feed(turn, life("started"));
  const retry = known({ type: "system", subtype: "api_retry", attempt: 3, parent_tool_use_id: "toolu_1" });
  expect(feed(turn, retry)).toEqual([
    { kind: "waiting", session: "toolu_1", reason: "unknown", attempt: 3, delayMs: null, isMain: false },
  ]);
});

test("a tool's result is told once, with the tool's name; of a call that was not seen, never", () => {
  const turn = view();
  const call = known({
    type: "assistant",
    uuid: "u",
    message: {
      id: "m",
      model: "m1",
      content: [{ type: "tool_use", id: "c1", name: "Bash", input: { command: "ls" } }],
    },
  });
  const done = (id: string) =>
    known({ type: "user", message: { content: [{ type: "tool_result", tool_use_id: id, is_error: true }] } });
  feed(turn, life("started"));
  expect(feed(turn, call)).toContainEqual(
    expect.objectContaining({ kind: "tool", tool: "Bash", status: "running", title: "ls" }),
  );
  expect(feed(turn, done("c1"), done("c1"), done("c2"))).toMatchObject([{ call: "c1", status: "failed" }]);
});

test("law 11: one answer without a statement makes the turn's usage unknown", () => {
  const turn = view();
  const streamed = (id: string, usage?: object) =>
    known({ type: "stream_event", event: { type: "message_start", message: { id, usage } } });
  const usage = { input_tokens: 100, output_tokens: 10 };
  const changes = feed(
    turn,
    life("started"),
    streamed("a", usage),
    streamed("b"),
    said("Yes."),
    result({ usage }),
  );
  expect(changes.at(-1)).toMatchObject({ usage: { source: "cli", inputTokens: null, outputTokens: null } });
});

test("cut at any message of a recorded turn, it is never ended early and never twice", () => {
  const { own, messages } = turnOf("2.1.332-turns", "tool");
  for (let cut = 0; cut <= messages.length; cut += 1) {
    const turn = createTurnView({ ownMessage: own, agents: createAgents("root"), earlierTail: null });
    const ends = kinds(feed(turn, ...messages.slice(0, cut))).filter((kind) => kind === "native_end");
    const hasResult = messages.slice(0, cut).some(({ type }) => type === "result");
    expect(ends, `cut at ${cut}`).toHaveLength(hasResult ? 1 : 0);
  }
});
