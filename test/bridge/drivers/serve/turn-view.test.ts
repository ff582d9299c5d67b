import { expect, test } from "vitest";
import { NO_USAGE } from "../../../../protocol/usage.ts";
import { on } from "./native.ts";
import { replay } from "./replay.ts";

const turn = { root: "ses_r", own: "msg_own" };

function started() {
  return [on.user("ses_r", "msg_own"), on.busy("ses_r")];
}

test("usage is unknown where one message of the turn states none", () => {
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
  view.adopt("ses_found", "ses_r", "explore");
  view.adopt("ses_r", "ses_other", "not mine");
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

test("ancestry goes from the asking session up to the root, with the titles that the CLI gave", () => {
  const { view } = replay(
    [...started(), on.created("ses_c", "ses_r", "explore"), on.created("ses_g", "ses_c", "x".repeat(500))],
    turn,
  );
  expect(view.ancestry("ses_r")).toEqual([{ session: "ses_r", title: "" }]);
  expect(view.ancestry("ses_g").map(({ session }) => session)).toEqual(["ses_g", "ses_c", "ses_r"]);
  expect(view.ancestry("ses_g")[0]?.title.length).toBeLessThanOrEqual(200);
  view.adopt("ses_d", "ses_g", "found later");
  expect(view.ancestry("ses_d")[0]).toEqual({ session: "ses_d", title: "found later" });
  expect(view.ancestry("ses_unknown")).toEqual([{ session: "ses_unknown", title: "" }]);
});

test("ancestry is bounded, however deep the children go", () => {
  const { view } = replay(started(), turn);
  for (let depth = 1; depth <= 100; depth += 1) {
    view.adopt(`ses_${depth}`, depth === 1 ? "ses_r" : `ses_${depth - 1}`, "");
  }
  expect(view.ancestry("ses_100")).toHaveLength(32);
});

test("what the CLI takes back is taken out of the answer: a part, and a whole message with all of its parts", () => {
  const { changes, parts } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m2"),
      on.text("ses_r", "m2", "p1", "one", true),
      on.text("ses_r", "m2", "p2", "two", true),
      on.partRemoved("ses_r", "m2", "p1"),
      on.assistant("ses_r", "m3"),
      on.text("ses_r", "m3", "p3", "three", true),
      on.text("ses_r", "m3", "p4", "four"),
      on.partRemoved("ses_other", "m2", "p2"),
      on.removed("ses_other", "m2"),
      on.removed("ses_r", "m3"),
    ],
    turn,
  );
  expect(parts).toEqual(["two"]);
  expect(changes.flatMap((change) => (change.kind === "withdrawn" ? [change.part] : []))).toEqual([
    "p1",
    "p3",
    "p4",
  ]);
});

test("a message that was taken back while it was open no longer holds the end, and is not the tail", () => {
  const { ends } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m2", { done: true, finish: "stop" }),
      on.assistant("ses_r", "m3"),
      on.removed("ses_r", "m3"),
      on.idle("ses_r"),
    ],
    turn,
  );
  expect(ends[0]?.end).toMatchObject({ status: "completed", tail: { role: "assistant", id: "m2" } });
});

test("P19: a child that waits for its provider is told as waiting too; its text is nobody's to withdraw", () => {
  const { changes, parts } = replay(
    [
      ...started(),
      on.assistant("ses_r", "m2"),
      on.text("ses_r", "m2", "p1", "so far"),
      on.created("ses_c", "ses_r"),
      on.status("ses_c", "retry", { attempt: 3, message: "quota exceeded", next: 99 }),
      on.status("ses_other", "retry", { attempt: 1, message: "theirs", next: 1 }),
    ],
    turn,
  );
  expect(changes.filter(({ kind }) => kind === "waiting")).toEqual([
    { kind: "waiting", session: "ses_c", reason: "quota exceeded", attempt: 3, nextAt: 99 },
  ]);
  expect(parts).toEqual(["so far"]);
});
