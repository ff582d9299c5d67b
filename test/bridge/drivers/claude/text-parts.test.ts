import { expect, test } from "vitest";
import {
  createTextParts,
  type TextChange,
  type TextParts,
} from "../../../../bridge/drivers/claude/text-parts.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";
import { LIMITS } from "../../../../protocol/limits.ts";

/** What a reader has after these changes. */
function read(...changes: TextChange[][]): string[] {
  const output = createTurnOutput();
  for (const change of changes.flat()) {
    if (change.kind === "text") output.put(change.part, change.from, change.text);
    else output.withdraw(change.part);
  }
  return output.parts();
}

const start = (parts: TextParts, id: string) => parts.stream({ type: "message_start", message: { id } });
const open = (parts: TextParts, index: number, type = "text") =>
  parts.stream({ type: "content_block_start", index, content_block: { type, text: "" } });
const delta = (parts: TextParts, text: string) =>
  parts.stream({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
const close = (parts: TextParts) => parts.stream({ type: "content_block_stop" });
const text = (value: string) => ({ type: "text", text: value });

test("a streamed text stands when its message came, and is told once", () => {
  const parts = createTextParts();
  const changes = [start(parts, "a"), open(parts, 0), delta(parts, "One "), delta(parts, "answer.")];
  const finished = parts.finished("a", [text("One answer.")]);
  expect(finished).toEqual([]);
  expect(read(...changes, finished, close(parts))).toEqual(["One answer."]);
});

test("what the message says differently replaces what was streamed", () => {
  const parts = createTextParts();
  const changes = [
    start(parts, "a"),
    open(parts, 0),
    delta(parts, "Half"),
    parts.finished("a", [text("Whole.")]),
  ];
  expect(read(...changes)).toEqual(["Whole."]);
});

test("blocks of one message are parts of their own, in order, tools and thinking between them", () => {
  const parts = createTextParts();
  const changes = [
    start(parts, "a"),
    open(parts, 0, "thinking"),
    parts.finished("a", [{ type: "thinking" }]),
    close(parts),
    open(parts, 1),
    delta(parts, "First."),
    parts.finished("a", [text("First.")]),
    close(parts),
    open(parts, 2, "tool_use"),
    parts.finished("a", [{ type: "tool_use", id: "t", name: "Bash" }]),
    close(parts),
    open(parts, 3),
    delta(parts, "Second."),
    parts.finished("a", [text("Second.")]),
  ];
  expect(read(...changes)).toEqual(["First.", "Second."]);
});

test.each([
  ["a retry", (parts: TextParts) => parts.withdrawUnfinished()],
  ["the next attempt", (parts: TextParts) => start(parts, "b")],
  ["an answer without streaming", (parts: TextParts) => parts.finished("b", [])],
])("law 10: what an attempt streamed is withdrawn by %s", (_what, giveUp) => {
  const parts = createTextParts();
  const changes = [start(parts, "a"), open(parts, 0), delta(parts, "Half of"), close(parts)];
  expect(read(...changes)).toEqual(["Half of"]);
  const given = giveUp(parts);
  expect(given).toEqual([{ kind: "withdrawn", part: "a/0" }]);
  expect(read(...changes, given, parts.finished("b", [text("The whole.")]))).toEqual(["The whole."]);
});

test("a finished message is never withdrawn, and answers without streaming are counted block by block", () => {
  const parts = createTextParts();
  const changes = [
    parts.finished("a", [text("One."), text("Two.")]),
    parts.finished("a", [text("Three.")]),
    parts.withdrawUnfinished(),
    start(parts, "b"),
  ];
  expect(read(...changes)).toEqual(["One.", "Two.", "Three."]);
});

test("law 13: a block that streams without end is told as far as a turn's output goes, and comes whole when it is finished", () => {
  const parts = createTextParts();
  start(parts, "a");
  open(parts, 0);
  const piece = "x".repeat(LIMITS.outputChars);
  expect(delta(parts, piece)).toHaveLength(1);
  expect(delta(parts, "beyond")).toEqual([]);
  expect(parts.finished("a", [text(`${piece}beyond`)])).toMatchObject([{ kind: "text", from: 0 }]);
});

test("deltas outside any message or block, and other kinds of deltas, are nobody's text", () => {
  const parts = createTextParts();
  expect(delta(parts, "lost")).toEqual([]);
  start(parts, "a");
  expect(delta(parts, "lost")).toEqual([]);
  open(parts, 0);
  expect(
    parts.stream({ type: "content_block_delta", delta: { type: "input_json_delta", text: "lost" } }),
  ).toEqual([]);
});
