import { expect, test } from "vitest";
import { readNative } from "../../../../bridge/drivers/codex/native-message.ts";
import { captureNames, rowsOf } from "./captured.ts";

test.each(captureNames())("every line that codex printed in the recording %s is read", (name) => {
  const printed = rowsOf(name).filter(({ ch }) => ch === "stdout");
  expect(printed.length).toBeGreaterThan(20);
  // What is of no thread's turn is none of ours.
  const unread = printed.filter(({ d }) => readNative(d) === null).map(({ d }) => d.method);
  expect(new Set(unread)).toEqual(new Set(["thread/started"]));
});

test("answer, refusal, request and notification are told apart", () => {
  expect(readNative({ id: 3, result: { turn: {} } })).toEqual({
    kind: "result",
    id: 3,
    result: { turn: {} },
  });
  expect(readNative({ id: 3, error: { code: -32600, message: "no" } })).toEqual({
    kind: "refused",
    id: 3,
    code: -32600,
    message: "no",
  });
  expect(readNative({ id: 0, method: "item/x/requestApproval", params: {} })).toMatchObject({
    kind: "request",
  });
  expect(readNative({ id: "a", method: "x", params: null })).toMatchObject({ kind: "request" });
  expect(
    readNative({ method: "item/reasoning/textDelta", params: { threadId: "t", turnId: "u", delta: "x" } }),
  ).toEqual({ kind: "event", event: { method: "other", params: { threadId: "t", turnId: "u" } } });
});

test("a known kind that is not of its form is work of the turn and nothing more; without a turn it is nothing", () => {
  const params = { threadId: "t", turnId: "u", item: { type: 7 } };
  expect(readNative({ method: "item/started", params })).toEqual({
    kind: "event",
    event: { method: "other", params: { threadId: "t", turnId: "u" } },
  });
  expect(readNative({ method: "turn/completed", params: { threadId: "t", turn: {} } })).toBeNull();
});

test.each([
  [{}],
  [{ id: 1 }],
  [{ id: "1", result: {} }],
  [{ id: 1, error: "no" }],
  [{ method: 7 }],
  [{ method: "warning", params: { message: "x" } }],
  [{ method: "x", id: {}, params: {} }],
])("what is no message of the protocol is nothing: %j", (raw) => {
  expect(readNative(raw)).toBeNull();
});
