import { expect, test } from "vitest";
import { NO_USAGE } from "../../../../protocol/usage.ts";
import { type Cli, on } from "./native.ts";
import { capturedTurns, replay } from "./replay.ts";

interface Row {
  cli: Cli;
  capture: string;
  /** Which of the root's user messages opens the turn. */
  user: number;
  /** The line of the capture at which the facts say that the turn settled. */
  line: number;
  status: "completed" | "failed" | "aborted";
  error?: string;
  parts: (string | RegExp)[];
}

const ticks = /^ tick0 tick1 .*\(\+\d+\)$/;
const row = (
  cli: Cli,
  capture: string,
  user: number,
  line: number,
  status: Row["status"],
  parts: Row["parts"],
  error?: string,
): Row => ({ cli, capture, user, line, status, parts, ...(error === undefined ? {} : { error }) });

/** The final idle of each turn: for a double idle the second one (facts, 3.4), read off the captures by hand. */
const ROWS: Row[] = [
  row("opencode", "turn-plain", 0, 20, "completed", ["Hello there friend"]),
  row("opencode", "turn-plain", 1, 40, "completed", ["Second reply"]),
  row("opencode", "perm-once", 0, 29, "completed", ["after perm"]),
  row("opencode", "perm-reject", 0, 16, "completed", []),
  row("opencode", "perm-two-reject-one", 0, 21, "completed", []),
  row("opencode", "question-reject", 0, 16, "completed", []),
  row("opencode", "question-reply", 0, 27, "completed", ["after q"]),
  row("opencode", "fail-400", 0, 11, "failed", [], "APIError"),
  row("opencode", "fail-400", 1, 22, "failed", [], "APIError"),
  row("opencode", "fail-500-retry", 0, 21, "failed", [], "APIError"),
  row("opencode", "fail-overflow", 0, 35, "completed", ["ok (no plan)"]),
  row("opencode", "connect-destroyed", 0, 17, "completed", ["recovered"]),
  row("opencode", "stream-cut", 0, 20, "completed", ["recovered"]),
  row("opencode", "task-child-perm-reject", 0, 43, "completed", ["root done"]),
  row("opencode", "abort-stream", 0, 15, "aborted", [ticks], "MessageAbortedError"),
  row("opencode", "abort-stream", 1, 30, "completed", ["fine"]),
  row("opencode", "abort-bash", 0, 17, "aborted", [], "MessageAbortedError"),
  row("opencode", "perm-abort", 0, 16, "aborted", [], "MessageAbortedError"),
  row("opencode", "task-abort-root", 0, 33, "aborted", [], "MessageAbortedError"),
  row("opencode", "instance-dispose", 0, 15, "aborted", ["aa "], "MessageAbortedError"),
  row("opencode", "retry-abort", 0, 9, "aborted", []),
  row("opencode", "second-prompt-while-busy", 0, 27, "completed", ["aaaa bbbb cccc dddd", "reply to second"]),
  row("opencode", "second-prompt-while-busy", 2, 55, "completed", ["reply to steer"]),
  row("kilo", "turn-plain", 0, 26, "completed", ["Hello there friend"]),
  row("kilo", "turn-plain", 1, 48, "completed", ["Second reply"]),
  row("kilo", "perm-reject", 0, 17, "completed", []),
  row("kilo", "question-reject", 0, 18, "completed", []),
  row("kilo", "stream-cut", 0, 16, "failed", ["partial text"], "APIError"),
  row("kilo", "task-child-perm-reject", 0, 60, "completed", ["root done"]),
  row("kilo", "abort-stream", 0, 17, "aborted", [ticks], "MessageAbortedError"),
  row("kilo", "abort-stream", 1, 34, "completed", ["fine"]),
  row("kilo", "abort-bash", 0, 20, "aborted", [], "MessageAbortedError"),
  row("kilo", "perm-abort", 0, 18, "aborted", [], "MessageAbortedError"),
  row("kilo", "task-abort-root", 0, 41, "aborted", [], "MessageAbortedError"),
  row("kilo", "retry-abort", 0, 11, "aborted", []),
  row("kilo", "connect-destroyed", 0, 12, "aborted", []),
  row("kilo", "second-prompt-while-busy", 0, 21, "completed", ["aaaa bbbb cccc dddd"]),
];

test.each(ROWS)("$cli $capture, message $user: one end, at line $line, $status", (expected) => {
  const { events, root, users } = capturedTurns(expected.cli, expected.capture);
  const own = users[expected.user] ?? "";
  const { ends, parts, changes } = replay(events, {
    root,
    own,
    earlier: users.slice(0, expected.user).flatMap((user) => messagesOf(events, user)),
  });
  expect(ends.map(({ at, end }) => ({ line: at + 1, status: end.status, error: end.error?.name }))).toEqual([
    { line: expected.line, status: expected.status, error: expected.error },
  ]);
  expect(parts).toHaveLength(expected.parts.length);
  expected.parts.forEach((part, index) => {
    if (typeof part === "string") expect(parts[index]).toBe(part);
    else expect(parts[index]).toMatch(part);
  });
  expect(changes.filter(({ kind }) => kind === "own_event")).toHaveLength(1);
  expect(ends[0]?.end.tail?.role).toBe("assistant");
});

test("the tail is the assistant's last message, also where the user's own was posted anew", () => {
  const { events, root, users } = capturedTurns("opencode", "fail-overflow");
  const { ends } = replay(events, { root, own: users[0] ?? "" });
  const assistants = events.flatMap((event) =>
    event?.type === "message.updated" && event.properties.info.role === "assistant"
      ? [event.properties.info.id]
      : [],
  );
  expect(ends[0]?.end.tail).toEqual({ role: "assistant", id: assistants.at(-1) });
});

test("usage is the sum over the turn's messages, and unknown where a message states none", () => {
  const { events, root, users } = capturedTurns("opencode", "turn-plain");
  const usage = replay(events, { root, own: users[0] ?? "" }).ends[0]?.end.usage;
  expect(usage).toEqual({
    source: "cli",
    inputTokens: 8075,
    outputTokens: 10,
    reasoningTokens: 0,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
  });
  const without = replay(
    [
      ...started(),
      on.assistant("ses_r", "msg_a", { done: true, finish: "tool-calls", tokens: { input: 3, output: 4 } }),
      on.assistant("ses_r", "msg_b", { done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(without.ends[0]?.end.usage).toEqual({ ...NO_USAGE, source: "cli" });
});

test("zeros alone are no statement: the CLI writes them where its provider said nothing", () => {
  const zeros = { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } };
  const { ends } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m2", { done: true, finish: "stop", tokens: zeros }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(ends[0]?.end.usage).toEqual({ ...NO_USAGE, source: "cli" });
});

test("a retry is told with its message and time, and takes back the text of the attempt that was cut", () => {
  const { events, root, users } = capturedTurns("opencode", "stream-cut");
  const { changes } = replay(events, { root, own: users[0] ?? "" });
  expect(changes).toContainEqual({
    kind: "waiting",
    reason: "Connection reset by server",
    attempt: 1,
    nextAt: 1796049202681,
  });
  expect(changes.filter(({ kind }) => kind === "withdrawn")).toHaveLength(1);
});

test("Kilo's offline state is told as waiting", () => {
  const { events, root, users } = capturedTurns("kilo", "connect-destroyed");
  const { changes } = replay(events, { root, own: users[0] ?? "" });
  expect(changes).toContainEqual({
    kind: "waiting",
    reason: "Connection reset by server",
    attempt: 0,
    nextAt: null,
  });
});

test("tools of the root and of its children are told once a state, each in its session", () => {
  const { events, root, users } = capturedTurns("opencode", "task-child-perm-reject");
  const { changes } = replay(events, { root, own: users[0] ?? "" });
  const tools = changes.flatMap((change) =>
    change.kind === "tool"
      ? [`${change.session === root ? "root" : "child"} ${change.tool} ${change.status}`]
      : [],
  );
  expect(tools).toEqual(["root task running", "child bash running", "child bash failed", "root task failed"]);
});

test("two sessions may use one call id: each tool is told for itself", () => {
  const { changes } = replay(
    [
      ...started(),
      on.created("ses_c", "ses_r"),
      on.tool("ses_r", "msg_a", "call_0", "running"),
      on.tool("ses_c", "msg_b", "call_0", "running"),
    ],
    turn,
  );
  expect(changes.filter(({ kind }) => kind === "tool")).toHaveLength(2);
});

const turn = { root: "ses_r", own: "msg_own" };

function started() {
  return [on.user("ses_r", "msg_own"), on.busy("ses_r")];
}

test("P6: deltas and parts before roles: the answer holds each assistant part once and never the user's", () => {
  const { parts, ends } = replay(
    [
      on.delta("ses_r", "m2", "p1", "Hel"),
      on.text("ses_r", "m2", "p1", ""),
      on.delta("ses_r", "m2", "p1", "lo"),
      on.text("ses_r", "msg_own", "p0", "the user's own"),
      on.user("ses_r", "msg_own"),
      on.assistant("ses_r", "m2", { parent: "msg_own" }),
      on.busy("ses_r"),
      on.text("ses_r", "m2", "p1", "Hello", true),
      on.assistant("ses_r", "m2", { parent: "msg_own", done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(parts).toEqual(["Hello"]);
  expect(ends).toHaveLength(1);
});

test("P6: an assistant message that names our own message as parent is ours before that one is seen", () => {
  const { parts, ends } = replay(
    [
      on.assistant("ses_r", "m2", { parent: "msg_own" }),
      on.text("ses_r", "m2", "p1", "Hello", true),
      on.user("ses_r", "msg_own"),
      on.busy("ses_r"),
      on.idle("ses_r"),
      on.assistant("ses_r", "m2", { parent: "msg_own", done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(parts).toEqual(["Hello"]);
  expect(ends.map(({ at }) => at)).toEqual([6]);
});

test("P6: parts of a message whose role never comes are nobody's", () => {
  const { parts, ends, view } = replay(
    [
      ...started(),
      on.text("ses_r", "m_orphan", "p9", "whose?", true),
      on.assistant("ses_r", "m2", { done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(parts).toEqual([]);
  expect(ends).toHaveLength(1);
  expect(view.messagesWithoutRole()).toEqual(["m_orphan"]);
});

test("P7: errors, idles and children of another session and of no session move nothing", () => {
  const { ends, changes } = replay(
    [
      ...started(),
      on.error("ses_other", "APIError"),
      on.error(undefined, "UnknownError"),
      on.idle("ses_other"),
      on.created("ses_theirs", "ses_other"),
      on.busy("ses_theirs"),
      on.assistant("ses_other", "m9", { error: "APIError", done: true }),
    ],
    turn,
  );
  expect(ends).toEqual([]);
  expect(changes.map(({ kind }) => kind)).toEqual(["own_event", "end_not_expected"]);
});

test("an idle before the turn's own message, or before its own busy, settles nothing", () => {
  const { ends } = replay(
    [
      on.busy("ses_r"),
      on.idle("ses_r"),
      on.user("ses_r", "msg_own"),
      on.idle("ses_r"),
      on.status("ses_r", "idle"),
    ],
    turn,
  );
  expect(ends).toEqual([]);
});

test("messages of earlier turns that come late are nobody's", () => {
  const { parts, ends } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m_old", { error: "MessageAbortedError", done: true }),
      on.text("ses_r", "m_old", "p_old", "old", true),
      on.delta("ses_r", "m_old", "p_old", " text"),
      on.tool("ses_r", "m_old", "call_old", "completed"),
      on.assistant("ses_r", "m2", { done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    { ...turn, earlier: ["m_old"] },
  );
  expect(parts).toEqual([]);
  expect(ends[0]?.end).toMatchObject({ status: "completed", tail: { id: "m2" } });
});

test("children keep the turn open until the last of them is quiet, grandchildren too", () => {
  const { ends, view } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m2", { done: true, finish: "stop" }),
      on.created("ses_c", "ses_r"),
      on.busy("ses_c"),
      on.created("ses_g", "ses_c"),
      on.busy("ses_g"),
      on.idle("ses_r"),
      on.idle("ses_c"),
      on.idle("ses_g"),
    ],
    turn,
  );
  expect(ends.map(({ at }) => at)).toEqual([9]);
  expect(view.busyDescendants()).toEqual([]);
  expect(view.isOurs("ses_g")).toBe(true);
});

test("a child that wakes the root again keeps the turn open: no idle in between is the end", () => {
  const { ends } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m2", { done: true, finish: "stop" }),
      on.created("ses_c", "ses_r"),
      on.busy("ses_c"),
      on.idle("ses_r"),
      on.busy("ses_r"),
      on.idle("ses_c"),
      on.assistant("ses_r", "m3"),
      on.assistant("ses_r", "m3", { done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(ends.map(({ at }) => at)).toEqual([10]);
});

test("a child that was created and never ran is quiet once the server says so", () => {
  const { view, ends } = replay(
    [
      ...started(),
      on.created("ses_c", "ses_r"),
      on.assistant("ses_r", "m2", { done: true, finish: "stop" }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(ends).toEqual([]);
  expect(view.quiet(["ses_unknown"])).toEqual([]);
  expect(view.quiet(["ses_c"]).map(({ kind }) => kind)).toEqual(["native_end"]);
});

test("a session that was adopted holds the end until it is quiet, and its tools are told", () => {
  const { view } = replay([...started(), on.assistant("ses_r", "m2", { done: true, finish: "stop" })], turn);
  view.adopt("ses_found");
  view.adopt("ses_r");
  expect(view.busyDescendants()).toEqual(["ses_found"]);
  expect(view.isAtWork("ses_found", "call_1")).toBe(true);
  expect(view.take(on.tool("ses_found", "m3", "call_1", "completed"))).toHaveLength(1);
  expect(view.isAtWork("ses_found", "call_1")).toBe(false);
  expect(view.take(on.idle("ses_r")).map(({ kind }) => kind)).toEqual(["end_expected"]);
  expect(view.take(on.idle("ses_found")).map(({ kind }) => kind)).toEqual(["native_end"]);
});

test("a turn that fails before any message is failed with the session's error", () => {
  const { ends } = replay(
    [...started(), on.error("ses_r", "UnknownError", "Model not found"), on.idle("ses_r")],
    turn,
  );
  expect(ends[0]?.end).toMatchObject({
    status: "failed",
    error: { name: "UnknownError", message: "Model not found" },
    tail: { role: "user", id: "msg_own" },
  });
});

test("a turn that is aborted before its first assistant message is aborted", () => {
  const { ends } = replay([...started(), on.error("ses_r", "MessageAbortedError"), on.idle("ses_r")], turn);
  expect(ends[0]?.end).toMatchObject({ status: "aborted", error: { name: "MessageAbortedError" } });
});

test("an end without any message and without an error is no success", () => {
  const { ends } = replay([...started(), on.idle("ses_r")], turn);
  expect(ends[0]?.end.status).toBe("failed");
});

test("P16: an error without a message is an expected end, and no end", () => {
  const { changes, view } = replay([on.error("ses_r", "UnknownError", "Agent not found")], turn);
  expect(changes).toEqual([{ kind: "end_expected" }]);
  expect(view.lastError()).toEqual({ name: "UnknownError", message: "Agent not found" });
});

test("an error that was not the end is forgotten: it does not make an aborted retry a failure", () => {
  const { ends } = replay(
    [
      on.error("ses_r", "UnknownError", "of the turn before"),
      ...started(),
      on.assistant("ses_r", "m2"),
      on.error("ses_r", "ContextOverflowError"),
      on.status("ses_r", "retry", { attempt: 1, message: "later", next: 9 }),
      on.assistant("ses_r", "m2", { done: true }),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(ends[0]?.end).toMatchObject({ status: "aborted", error: null });
});

test("nothing is said after the end", () => {
  const { view } = replay(
    [...started(), on.assistant("ses_r", "m2", { done: true, finish: "stop" }), on.idle("ses_r")],
    turn,
  );
  expect(view.take(on.busy("ses_r"))).toEqual([]);
  expect(view.take(on.text("ses_r", "m2", "p", "late", true))).toEqual([]);
  expect(view.take(on.idle("ses_r"))).toEqual([]);
});

/** The user's message and every message that answers it. */
function messagesOf(events: ReturnType<typeof capturedTurns>["events"], user: string): string[] {
  const answers = events.flatMap((event) =>
    event?.type === "message.updated" && event.properties.info.parentID === user
      ? [event.properties.info.id]
      : [],
  );
  return [user, ...new Set(answers)];
}
