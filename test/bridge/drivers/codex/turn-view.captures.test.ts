import { expect, test } from "vitest";
import type { NativeEvent } from "../../../../bridge/drivers/codex/native-message.ts";
import { createTurnView, type ViewChange } from "../../../../bridge/drivers/codex/turn-view.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";
import { turnOf } from "./captured.ts";

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("nothing was recorded");
  return value;
}

type End = Extract<ViewChange, { kind: "ended" }>;

/** A recorded turn through the view: its end, what was said, and what it told on its way. */
function replay(capture: string, text: string) {
  const { root, message, turn, events, usageBefore } = turnOf(capture, text);
  const view = createTurnView({ root, message, usageBefore });
  const output = createTurnOutput();
  const told: string[] = [];
  const ends: End[] = [];
  const take = (changes: ViewChange[]) => {
    for (const change of changes) {
      if (change.kind === "text") output.put(change.part, change.from, change.text);
      else if (change.kind === "withdrawn") output.withdraw(change.part);
      else if (change.kind === "ended") ends.push(change);
      else if (change.kind === "tool")
        told.push(`${change.session === root ? "" : "child's "}${change.tool} ${change.status}`);
      else if (change.kind === "waiting") told.push(`waiting ${change.attempt}`);
      else if (change.kind === "own_event") told.push("own");
    }
  };
  take(view.adopt(turn));
  for (const event of events) take(view.take(event));
  return { view, turn, root, ends, parts: output.parts(), told };
}

test("a plain turn: its own beginning, its text, its end with the tail and what it used", () => {
  const { ends, parts, told, turn } = replay("plain", "Hello.");
  expect(told).toEqual(["own"]);
  expect(parts).toEqual(["Hello to you."]);
  expect(ends).toEqual([
    {
      kind: "ended",
      status: "completed",
      error: null,
      tail: { role: "assistant", id: turn },
      usage: {
        source: "cli",
        inputTokens: 1000,
        outputTokens: 50,
        reasoningTokens: 6,
        cacheReadTokens: 234,
        cacheWriteTokens: 0,
      },
    },
  ]);
});

test("a turn with tools: both are told, a text before and one behind them, and one unstated call makes the sum unknown", () => {
  const { ends, parts, told } = replay("plain", "Use a tool.");
  expect(parts).toEqual(["First. ", "Done it."]);
  expect(told.toSorted()).toEqual([
    "exec_command completed",
    "exec_command failed",
    "exec_command running",
    "exec_command running",
    "own",
  ]);
  expect(ends).toMatchObject([{ status: "completed", usage: { source: "cli", inputTokens: null } }]);
});

test.each([
  ["Allow it.", ["exec_command running", "exec_command completed"]],
  ["Refuse it.", ["exec_command running", "exec_command failed"]],
  ["Patch it.", ["apply_patch running", "apply_patch failed"]],
])("what was asked for: %s", (text, tools) => {
  const { ends, told } = replay("asks", text);
  expect(told).toEqual(["own", ...tools]);
  expect(ends).toMatchObject([{ status: "completed" }]);
});

test.each(["Stream it.", "Approve it."])("an interrupted turn is aborted, without an error: %s", (text) => {
  const { ends, turn } = replay("interrupts", text);
  expect(ends).toMatchObject([{ status: "aborted", error: null, tail: { role: "user", id: turn } }]);
});

test("an answer that was cut is taken back and told once", () => {
  const { ends, parts, told } = replay("errors", "Cut it.");
  expect(told).toEqual(["own", "waiting 1"]);
  expect(parts).toEqual(["Whole."]);
  expect(ends).toMatchObject([{ status: "completed", usage: { inputTokens: 100, outputTokens: 10 } }]);
});

test.each([
  ["Bad one.", "other", "no such thing"],
  ["Too many.", "responseTooManyFailedAttempts", "429"],
  ["Too long.", "contextWindowExceeded", "context window"],
])("a failed turn has codex's word and its reason: %s", (text, name, message) => {
  const { ends, told } = replay("errors", text);
  expect(told).toEqual(["own"]);
  expect(ends).toMatchObject([
    {
      status: "failed",
      error: { name, message: expect.stringContaining(message) },
      usage: { source: "none" },
    },
  ]);
});

test("what is tried again for nothing is told each time, and fails without an address", () => {
  const { ends, told } = replay("errors", "Unauthorized.");
  expect(told).toEqual(["own", "waiting 1", "waiting 2"]);
  expect(ends).toMatchObject([{ status: "failed", error: { name: "httpConnectionFailed" } }]);
  expect(ends[0]?.error?.message).not.toContain("127.0.0.1");
});

test("behind an overflow codex compacts before it answers: one turn, one answer, the summary's tokens in the sum", () => {
  const { ends, parts } = replay("errors", "Shorter.");
  expect(parts).toHaveLength(1);
  expect(ends).toMatchObject([{ status: "completed", usage: { inputTokens: 200, outputTokens: 20 } }]);
});

test("a subagent's work is told as its own, its text and its end are not the turn's", () => {
  const { ends, parts, told, view, root } = replay("subagent", "Wait for it.");
  expect(parts).toEqual(["Main has waited."]);
  expect(told).toContain("child's exec_command completed");
  expect(told.filter((each) => each.startsWith("multi_agent_v1."))).toEqual([
    "multi_agent_v1.spawn_agent running",
    "multi_agent_v1.spawn_agent completed",
    "multi_agent_v1.wait_agent running",
    "multi_agent_v1.wait_agent completed",
  ]);
  expect(ends).toHaveLength(1);
  expect(view.family.atWork()).toEqual([]);
  const [child] = turnOf("subagent", "Wait for it.").requests;
  const { threadId } = required(child).params as { threadId: string };
  expect(view.family.ancestry(threadId)).toEqual([
    { session: threadId, title: "Child, work." },
    { session: root, title: "" },
  ]);
});

test("the main thread's end is the turn's, though a subagent works on", () => {
  const { ends, parts, view } = replay("subagent", "Leave it.");
  expect(parts).toEqual(["Main has left."]);
  expect(ends).toHaveLength(1);
  expect(view.family.atWork()).toHaveLength(1);
});

test("the events of another turn move nothing", () => {
  const { root, message } = turnOf("plain", "Hello.");
  const view = createTurnView({ root, message, usageBefore: null });
  view.adopt("another turn");
  const { events } = turnOf("plain", "Hello.");
  const ofTurn = events.filter((event: NativeEvent) => event.method !== "thread/status/changed");
  expect(ofTurn.flatMap(view.take)).toEqual([]);
});
