import { expect, test } from "vitest";
import type { NativeEvent } from "../../../../bridge/drivers/codex/native-message.ts";
import { createTurnView, turnOf } from "../../../../bridge/drivers/codex/turn-view.ts";

const ROOT = "root";
const OURS = "t1";

type EventOf<M extends NativeEvent["method"]> = Extract<NativeEvent, { method: M }>;

const started = (turnId = OURS, threadId = ROOT, rootTurnId = turnId): EventOf<"turn/started"> => ({
  method: "turn/started",
  params: { threadId, turn: { id: turnId, rootTurnId, status: "inProgress" } },
});
const completed = (
  status = "completed",
  turnId = OURS,
  threadId = ROOT,
  error: { message: string } | null = null,
): EventOf<"turn/completed"> => ({
  method: "turn/completed",
  params: { threadId, turn: { id: turnId, status, error } },
});
const item = (
  end: "started" | "completed",
  type: string,
  more: object = {},
  turnId = OURS,
  threadId = ROOT,
): NativeEvent => ({
  method: `item/${end}`,
  params: { threadId, turnId, item: { type, id: "i1", ...more } },
});
const failed = (willRetry: boolean, threadId = ROOT, turnId = OURS): EventOf<"error"> => ({
  method: "error",
  params: { threadId, turnId, willRetry, error: { message: "down", codexErrorInfo: "serverOverloaded" } },
});
const status = (type: string): EventOf<"thread/status/changed"> => ({
  method: "thread/status/changed",
  params: { threadId: ROOT, status: { type } },
});

function opened() {
  const view = createTurnView({ root: ROOT, message: "m1", usageBefore: null });
  view.adopt(OURS);
  return view;
}

const kinds = (changes: ReadonlyArray<{ kind: string }>) =>
  changes.map(({ kind }) => kind).filter((kind) => kind !== "progress");

test("the turn's own event is its beginning, or its message, and comes once", () => {
  const view = opened();
  expect(kinds(view.take(started()))).toEqual(["own_event"]);
  expect(kinds(view.take(started()))).toEqual([]);
  expect(kinds(view.take(item("started", "userMessage", { clientId: "m1" })))).toEqual([]);
  const late = opened();
  expect(kinds(late.take(item("started", "userMessage", { clientId: "m2" })))).toEqual([]);
  expect(kinds(late.take(item("completed", "userMessage", { clientId: "m1" })))).toEqual(["own_event"]);
});

test("what comes before the turn is named is held, and taken when it is; of another turn it is dropped", () => {
  const view = createTurnView({ root: ROOT, message: "m1", usageBefore: null });
  expect([started("t0"), completed("completed", "t0"), started()].flatMap(view.take)).toEqual([]);
  expect(view.turnId()).toBeNull();
  expect(kinds(view.adopt(OURS))).toEqual(["own_event"]);
  expect(view.turnId()).toBe(OURS);
});

test("our own message names the turn when the answer does not", () => {
  const view = createTurnView({ root: ROOT, message: "m1", usageBefore: null });
  view.take(started());
  expect(kinds(view.take(item("started", "userMessage", { clientId: "m1" })))).toEqual(["own_event"]);
  expect(view.turnId()).toBe(OURS);
});

test("no more than a thousand events are held", () => {
  const view = createTurnView({ root: ROOT, message: "m1", usageBefore: null });
  for (let at = 0; at < 1000; at += 1) view.take(item("started", "reasoning", {}, "t0"));
  view.take(started());
  expect(view.adopt(OURS)).toEqual([]);
});

test("C2: only the end with our id on the main thread ends the turn, once, and nothing is taken behind it", () => {
  const view = opened();
  view.take(started());
  expect(kinds(view.take(completed("completed", "t0")))).toEqual([]);
  expect(kinds(view.take(completed("completed", OURS, "another thread")))).toEqual([]);
  expect(kinds(view.take(completed("inProgress")))).toEqual([]);
  expect(kinds(view.take(completed()))).toEqual(["ended"]);
  expect(view.take(completed())).toEqual([]);
  expect(view.take(failed(false))).toEqual([]);
});

test.each([
  ["completed", "completed"],
  ["failed", "failed"],
  ["interrupted", "aborted"],
])("C2: %s is %s", (native, ours) => {
  expect(opened().take(completed(native))).toMatchObject([{ kind: "ended", status: ours }]);
});

test("an error is no settlement: the end must follow, and has the last word on the reason", () => {
  const view = opened();
  const down = { name: "serverOverloaded", message: "down" };
  expect(view.take(failed(false))).toEqual([{ kind: "end_expected", error: down }]);
  expect(view.take(completed("failed"))).toMatchObject([{ kind: "ended", error: down }]);
  const other = opened();
  other.take(failed(false));
  expect(other.take(completed("failed", OURS, ROOT, { message: "said so" }))).toMatchObject([
    { error: { message: "said so" } },
  ]);
  const well = opened();
  well.take(failed(false));
  expect(well.take(completed())).toMatchObject([{ status: "completed", error: null }]);
});

test("an idle thread is no settlement either, and before the turn has begun it means nothing", () => {
  const view = opened();
  expect(view.take(status("idle"))).toEqual([]);
  view.take(started());
  expect(view.take(status("active"))).toEqual([]);
  expect(view.take(status("idle"))).toEqual([{ kind: "end_expected", error: null }]);
});

test("waits are counted from the last progress, for each thread by itself", () => {
  const view = opened();
  view.take(started("c1", "child", OURS));
  const attempts = (event: NativeEvent) =>
    view
      .take(event)
      .flatMap((change) => (change.kind === "waiting" ? [`${change.session} ${change.attempt}`] : []));
  expect([failed(true), failed(true), failed(true, "child", "c1")].flatMap(attempts)).toEqual([
    "root 1",
    "root 2",
    "child 1",
  ]);
  view.take(item("started", "reasoning"));
  expect(attempts(failed(true))).toEqual(["root 1"]);
  expect(attempts(failed(true, "child", "c1"))).toEqual(["child 2"]);
});

test("a wait takes back the main thread's open text, a child's takes back nothing", () => {
  const view = opened();
  view.take(started("c1", "child", OURS));
  const delta: NativeEvent = {
    method: "item/agentMessage/delta",
    params: { threadId: ROOT, turnId: OURS, itemId: "a", delta: "half" },
  };
  expect(kinds(view.take(delta))).toEqual(["text"]);
  expect(kinds(view.take(failed(true, "child", "c1")))).toEqual(["waiting"]);
  expect(kinds(view.take(failed(true)))).toEqual(["withdrawn", "waiting"]);
});

test("a child's text, usage and failure are not the turn's", () => {
  const view = opened();
  view.take(started("c1", "child", OURS));
  const tokens = {
    totalTokens: 2,
    inputTokens: 1,
    cachedInputTokens: 0,
    cacheWriteInputTokens: 0,
    outputTokens: 1,
    reasoningOutputTokens: 0,
  };
  const events: NativeEvent[] = [
    item("completed", "agentMessage", { text: "child's" }, "c1", "child"),
    {
      method: "item/agentMessage/delta",
      params: { threadId: "child", turnId: "c1", itemId: "x", delta: "child's" },
    },
    {
      method: "thread/tokenUsage/updated",
      params: { threadId: "child", turnId: "c1", tokenUsage: { total: tokens, last: tokens } },
    },
    failed(false, "child", "c1"),
    completed("failed", "c1", "child"),
  ];
  expect(kinds(events.flatMap(view.take))).toEqual([]);
  expect(view.take(completed())).toMatchObject([
    { status: "completed", error: null, tail: { role: "user" }, usage: { source: "none" } },
  ]);
});

test("a child is ours by the turn that it works for; a turn of its own afterwards is not", () => {
  const view = opened();
  view.take(started("c1", "child", OURS));
  view.take(started("d1", "stranger", "t0"));
  expect(view.isOurs("child", "c1")).toBe(true);
  expect(view.isOurs("child", null)).toBe(false);
  expect(view.isOurs("stranger", "d1")).toBe(false);
  view.take(started("c2", "child", "t0"));
  expect(view.isOurs("child", "c2")).toBe(false);
});

test("threads with open commands are known until their end, subagents' too, whatever ids the provider gave", () => {
  const view = opened();
  view.take(started("c1", "child", OURS));
  view.take(item("started", "fileChange", { id: "y" }));
  expect(view.threadsAtCommands()).toEqual([]);
  view.take(item("started", "commandExecution", { id: "z" }, "c1", "child"));
  view.take(item("started", "commandExecution", { id: "z" }));
  expect(view.threadsAtCommands()).toEqual(["child", ROOT]);
  view.take(item("completed", "commandExecution", { id: "z", status: "completed" }));
  expect(view.threadsAtCommands()).toEqual(["child"]);
  view.take(item("completed", "commandExecution", { id: "z", status: "completed" }, "c1", "child"));
  expect(view.threadsAtCommands()).toEqual([]);
});

test("the paths of a patch are known while it is asked for", () => {
  const view = opened();
  const changes = [{ path: "/w/a" }, { path: "/w/b", kind: { move_path: "/w/c" } }];
  view.take(item("started", "fileChange", { changes }));
  expect(view.pathsOf("i1")).toEqual(["/w/a", "/w/b", "/w/c"]);
  expect(view.pathsOf("none")).toEqual([]);
  view.take(item("completed", "fileChange", { changes }));
  expect(view.pathsOf("i1")).toEqual([]);
});

test("P18: when codex names another active turn, that one's end is the end", () => {
  const view = opened();
  view.take(started());
  view.adopt("t9");
  expect(view.take(completed("interrupted", OURS))).toEqual([]);
  expect(view.take(completed("interrupted", "t9"))).toMatchObject([{ kind: "ended", tail: { id: "t9" } }]);
});

test("the turn of an event is the one that it names", () => {
  expect(turnOf(started())).toBe(OURS);
  expect(turnOf(completed())).toBe(OURS);
  expect(turnOf(failed(true))).toBe(OURS);
  expect(turnOf(status("idle"))).toBeNull();
  expect(turnOf({ method: "serverRequest/resolved", params: { threadId: ROOT, requestId: 1 } })).toBeNull();
});
