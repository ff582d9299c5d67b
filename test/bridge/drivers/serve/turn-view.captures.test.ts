import { expect, test } from "vitest";
import type { Cli } from "./native.ts";
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

/**
 * The last word of each turn, read off the captures by hand: OpenCode's final idle (for a double idle the second one,
 * facts 3.4), and of Kilo's idle and closed bracket the later one.
 */
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
  row("kilo", "turn-plain", 0, 28, "completed", ["Hello there friend"]),
  row("kilo", "turn-plain", 1, 50, "completed", ["Second reply"]),
  row("kilo", "perm-reject", 0, 19, "completed", []),
  row("kilo", "question-reject", 0, 20, "completed", []),
  row("kilo", "stream-cut", 0, 18, "failed", ["partial text"], "APIError"),
  row("kilo", "task-child-perm-reject", 0, 62, "completed", ["root done"]),
  row("kilo", "abort-stream", 0, 17, "aborted", [ticks], "MessageAbortedError"),
  row("kilo", "abort-stream", 1, 36, "completed", ["fine"]),
  row("kilo", "abort-bash", 0, 20, "aborted", [], "MessageAbortedError"),
  row("kilo", "perm-abort", 0, 18, "aborted", [], "MessageAbortedError"),
  row("kilo", "task-abort-root", 0, 41, "aborted", [], "MessageAbortedError"),
  row("kilo", "retry-abort", 0, 11, "aborted", []),
  row("kilo", "connect-destroyed", 0, 12, "aborted", []),
  row("kilo", "second-prompt-while-busy", 0, 23, "completed", ["aaaa bbbb cccc dddd"]),
];

test.each(ROWS)("$cli $capture, message $user: one end, at line $line, $status", (expected) => {
  const { events, root, users } = capturedTurns(expected.cli, expected.capture);
  const own = users[expected.user] ?? "";
  const { ends, parts, changes } = replay(events, {
    root,
    own,
    isBracketed: expected.cli === "kilo",
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
});

test("a retry is told with its message and time, and takes back the text of the attempt that was cut", () => {
  const { events, root, users } = capturedTurns("opencode", "stream-cut");
  const { changes } = replay(events, { root, own: users[0] ?? "" });
  expect(changes).toContainEqual({
    kind: "waiting",
    session: root,
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
    session: root,
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

/** The user's message and every message that answers it. */
function messagesOf(events: ReturnType<typeof capturedTurns>["events"], user: string): string[] {
  const answers = events.flatMap((event) =>
    event?.type === "message.updated" && event.properties.info.parentID === user
      ? [event.properties.info.id]
      : [],
  );
  return [user, ...new Set(answers)];
}
