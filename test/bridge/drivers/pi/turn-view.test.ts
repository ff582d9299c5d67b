import { expect, test } from "vitest";
import { readNative } from "../../../../bridge/drivers/pi/native-message.ts";
import { createTurnView, type ViewChange } from "../../../../bridge/drivers/pi/turn-view.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";

/** Raw messages go through the reader, so that no test can use a shape which the driver would not take. */
function bench(own = "Hello.") {
  const view = createTurnView(own);
  const output = createTurnOutput();
  const all: ViewChange[] = [];
  return {
    all,
    parts: () => output.parts(),
    end: () => all.flatMap((change) => (change.kind === "settled" ? [change.end] : [])),
    take(...messages: Array<Record<string, unknown>>): ViewChange[] {
      const changes = messages.flatMap((raw) => {
        const message = readNative(raw);
        if (message === null) throw new Error(`not a message: ${JSON.stringify(raw)}`);
        return view.take(message);
      });
      for (const change of changes) {
        if (change.kind === "text") output.put(change.part, change.from, change.text);
        if (change.kind === "withdrawn") output.withdraw(change.part);
      }
      all.push(...changes);
      return changes;
    },
  };
}

const user = (text: string) => ({
  type: "message_start",
  message: { role: "user", content: [{ type: "text", text }] },
});
const start = { type: "message_start", message: { role: "assistant", content: [] } };
const update = (type: string, contentIndex: number, more: Record<string, unknown> = {}) => ({
  type: "message_update",
  assistantMessageEvent: { type, contentIndex, ...more },
});
const delta = (contentIndex: number, text: string) => update("text_delta", contentIndex, { delta: text });
const end = (stopReason: string, texts: string[] = [], more: Record<string, unknown> = {}) => ({
  type: "message_end",
  message: {
    role: "assistant",
    content: texts.map((text) => ({ type: "text", text })),
    stopReason,
    timestamp: 5,
    usage: { input: 10, output: 5, cacheRead: 0, cacheWrite: 0 },
    ...more,
  },
});
const agentEnd = (willRetry = false) => ({ type: "agent_end", messages: [], willRetry });
const settled = (aborted = false) => ({ type: "agent_settled", aborted });

test("nothing counts before our own message: neither another text nor another run's end", () => {
  const { take } = bench();
  expect(
    take(settled(), user("Hello"), start, delta(0, "x"), end("stop", ["x"]), agentEnd(), settled()),
  ).toEqual([]);
  expect(take(user("Hello."))).toEqual([{ kind: "own_event", what: "message_start" }]);
  expect(take(user("Hello."))).toEqual([]);
});

test("a compaction before the prompt is the turn's own beginning, and its end is not the turn's", () => {
  const { take, all, end: ends } = bench();
  take({ type: "compaction_start", reason: "threshold" });
  take({ type: "compaction_end", willRetry: false, result: { usage: { input: 3, output: 2 } } });
  take(user("Hello."), start, delta(0, "Hi"), end("stop", ["Hi"]), agentEnd(), settled());
  expect(all.filter(({ kind }) => kind === "own_event")).toEqual([
    { kind: "own_event", what: "compaction_start" },
  ]);
  expect(ends()).toMatchObject([{ status: "completed", usage: { inputTokens: 13, outputTokens: 7 } }]);
});

test("text comes in pieces by block, and the finished message has the last word", () => {
  const { take, parts } = bench();
  take(user("Hello."), start, delta(0, "One "), delta(2, "Three"), delta(0, "two"));
  expect(parts()).toEqual(["One two", "Three"]);
  take(update("text_end", 0, { content: "One TWO" }));
  expect(parts()).toEqual(["One TWO", "Three"]);
  take(end("stop", ["One TWO!"]));
  expect(parts()).toEqual(["One TWO!"]);
});

test("an answer that was not streamed is told when it is finished", () => {
  const { take, parts } = bench();
  take(user("Hello."), end("toolUse", ["First."]), end("stop", ["Second."]));
  expect(parts()).toEqual(["First.", "Second."]);
});

test("thinking and tool arguments are progress and no part of the answer", () => {
  const { take, parts } = bench();
  take(user("Hello."), start);
  for (const type of ["thinking_start", "thinking_delta", "toolcall_delta"])
    expect(take(update(type, 0, { delta: "x" }))).toEqual([{ kind: "progress" }]);
  expect(parts()).toEqual([]);
});

test("what an attempt that is made again had said is withdrawn, and what was before it stays", () => {
  const { take, parts } = bench();
  take(user("Hello."), start, delta(0, "Kept. "), end("toolUse", ["Kept. "]));
  take(start, delta(0, "Half"), end("error", ["Half"], { errorMessage: "terminated" }), agentEnd(true));
  expect(parts()).toEqual(["Kept. ", "Half"]);
  const retry = { type: "auto_retry_start", attempt: 2, delayMs: 4000, errorMessage: "at 10.0.0.1:80" };
  expect(take(retry)).toContainEqual({
    kind: "waiting",
    reason: "at [address]",
    attempt: 2,
    delayMs: 4000,
  });
  expect(parts()).toEqual(["Kept. "]);
  take({ type: "agent_start" }, start, delta(0, "Whole"), end("stop", ["Whole"]), agentEnd(), settled());
  expect(parts()).toEqual(["Kept. ", "Whole"]);
});

test("what a compaction recovers from is withdrawn", () => {
  const { take, parts } = bench();
  take(user("Hello."), start, delta(0, "Cut"), end("length", ["Cut"]), agentEnd());
  take({ type: "compaction_start", reason: "overflow" }, { type: "compaction_end", willRetry: true });
  expect(parts()).toEqual([]);
});

test("a summary that is tried again is a wait", () => {
  const { take } = bench();
  take(user("Hello."));
  expect(take({ type: "summarization_retry_scheduled", attempt: 1, delayMs: 2000 })).toContainEqual({
    kind: "waiting",
    reason: "the provider failed",
    attempt: 1,
    delayMs: 2000,
  });
});

test.each([
  ["stop", false, "completed"],
  ["length", false, "completed"],
  ["toolUse", false, "completed"],
  ["error", false, "failed"],
  ["aborted", false, "aborted"],
  ["stop", true, "aborted"],
  ["error", true, "aborted"],
  ["pending", false, "failed"],
  ["brand_new", false, "failed"],
] as const)("a last answer that stopped by %s (abort asked: %s) is a %s turn", (reason, aborted, status) => {
  const { take, end: ends } = bench();
  take(user("Hello."), start, end(reason, [], { errorMessage: "no luck" }), agentEnd(), settled(aborted));
  expect(ends()).toMatchObject([{ status, answeredAt: 5 }]);
  expect(ends()[0]?.error === null).toBe(status !== "failed");
});

test("a run without any answer is a failed turn, and an aborted one when it was aborted", () => {
  const failed = bench();
  failed.take(user("Hello."), agentEnd(), settled());
  expect(failed.end()).toMatchObject([{ status: "failed", error: { name: "NoAnswer" }, answeredAt: null }]);
  const aborted = bench();
  aborted.take(user("Hello."), agentEnd(), settled(true));
  expect(aborted.end()).toMatchObject([{ status: "aborted", error: null }]);
});

test("the last answer decides: a failure before it is forgotten, one behind it is not", () => {
  const good = bench();
  good.take(user("Hello."), end("error"), end("stop", ["Good."]), agentEnd(), settled());
  expect(good.end()).toMatchObject([{ status: "completed", error: null }]);
  const bad = bench();
  bad.take(user("Hello."), end("toolUse"), end("error", [], { errorMessage: "529" }), agentEnd(), settled());
  expect(bad.end()).toMatchObject([{ status: "failed", error: { message: "529" } }]);
});

test("agent_end is no end: it expects one, unless pi says that it goes on", () => {
  const { take, end: ends } = bench();
  take(user("Hello."), end("stop"));
  expect(take(agentEnd(true))).toEqual([]);
  expect(take(agentEnd())).toEqual([{ kind: "end_expected" }]);
  expect(take({ type: "compaction_start", reason: "threshold" })).toContainEqual({
    kind: "end_not_expected",
  });
  expect(take({ type: "compaction_end", willRetry: false })).toContainEqual({ kind: "end_expected" });
  expect(take({ type: "agent_start" })).toEqual([{ kind: "end_not_expected" }]);
  expect(ends()).toEqual([]);
});

test("behind the end nothing is told any more", () => {
  const { take } = bench();
  take(user("Hello."), end("stop", ["Good."]), agentEnd(), settled());
  expect(take({ type: "agent_start" }, start, delta(0, "more"), end("error"), settled(true))).toEqual([]);
});

test("tools are told with what they act on, and as failed when they were", () => {
  const { take } = bench();
  take(user("Hello."));
  const call = (toolName: string, args: unknown) =>
    take({ type: "tool_execution_start", toolCallId: "c1", toolName, args }).find(
      ({ kind }) => kind === "tool",
    );
  expect(call("bash", { command: "ls -la" })).toMatchObject({ status: "running", title: "ls -la" });
  expect(call("read", { path: "a.txt" })).toMatchObject({ title: "a.txt" });
  expect(call("odd", null)).toMatchObject({ title: "" });
  expect(call("odd", { command: 7 })).toMatchObject({ title: "" });
  const ended = (isError: boolean | undefined) =>
    take({ type: "tool_execution_end", toolCallId: "c1", toolName: "bash", isError }).find(
      ({ kind }) => kind === "tool",
    );
  expect(ended(true)).toMatchObject({ status: "failed" });
  expect(ended(false)).toMatchObject({ status: "completed" });
});

test("a hundred thousand pieces are told in time", () => {
  const { take, parts } = bench();
  take(user("Hello."), start);
  for (let at = 0; at < 100_000; at += 1) take(delta(0, "word "));
  take(end("stop", ["word ".repeat(100_000)]));
  expect(parts()[0]).toHaveLength(500_000);
}, 10_000);

test("an answer beyond what anybody keeps is told on, and not kept here", () => {
  const { take, all, parts } = bench();
  const piece = "x".repeat(1024 * 1024);
  take(user("Hello."), start);
  for (let at = 0; at < 4; at += 1) take(delta(0, piece));
  const texts = () => all.filter((change) => change.kind === "text");
  expect(texts().map(({ from }) => from)).toEqual([0, 1, 2, 3].map((at) => at * piece.length));
  take(update("text_end", 0, { content: piece.repeat(4) }), end("stop", [piece.repeat(4)]));
  expect(texts()).toHaveLength(4);
  expect(parts()[0]).toHaveLength(2 * piece.length);
});

test("usage is the sum of the turn's answers; one without a statement makes it unknown", () => {
  const { take, end: ends } = bench();
  take(user("Hello."), end("toolUse"), end("stop"), agentEnd(), settled());
  expect(ends()[0]?.usage).toMatchObject({ source: "cli", inputTokens: 20, outputTokens: 10 });
  const other = bench();
  other.take(
    user("Hello."),
    end("toolUse"),
    end("stop", ["x"], { usage: { input: 0, output: 0 } }),
    settled(),
  );
  expect(other.end()[0]?.usage).toMatchObject({ source: "cli", inputTokens: null, outputTokens: null });
});
