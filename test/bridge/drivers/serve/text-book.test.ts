import { expect, test } from "vitest";
import type { NativePart } from "../../../../bridge/drivers/serve/native-event.ts";
import { createTextBook, HELD_CHARS, type TextChange } from "../../../../bridge/drivers/serve/text-book.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";

const part = (id: string, message: string, text: string, more: Partial<NativePart> = {}): NativePart => ({
  id,
  messageID: message,
  type: "text",
  text,
  ...more,
});
const finished = { time: { end: 2 } };

function assembled(changes: readonly TextChange[]): string[] {
  const output = createTurnOutput();
  for (const change of changes) {
    if (change.kind === "text") output.put(change.part, change.from, change.text);
    else output.withdraw(change.part);
  }
  return output.parts();
}

test("a part grows by its deltas, and its final form only adds what is new", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  const changes = [
    ...book.part(part("p", "m", "")),
    ...book.delta("m", "p", "Hel"),
    ...book.delta("m", "p", "lo"),
    ...book.part(part("p", "m", "Hello!", finished)),
  ];
  expect(changes).toEqual([
    { kind: "text", part: "p", from: 0, text: "Hel" },
    { kind: "text", part: "p", from: 3, text: "lo" },
    { kind: "text", part: "p", from: 5, text: "!" },
  ]);
});

test("a final form that differs replaces the part", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  const changes = [
    ...book.part(part("p", "m", "")),
    ...book.delta("m", "p", "Hello  "),
    ...book.part(part("p", "m", "Hello", finished)),
  ];
  expect(assembled(changes)).toEqual(["Hello"]);
});

test("a late copy of an earlier form takes nothing back, and a finished part takes no delta", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  const changes = [
    ...book.part(part("p", "m", "")),
    ...book.delta("m", "p", "Hello"),
    ...book.part(part("p", "m", "")),
    ...book.part(part("p", "m", "Hello", finished)),
    ...book.delta("m", "p", "lo"),
  ];
  expect(assembled(changes)).toEqual(["Hello"]);
});

test("deltas of reasoning use the field `text` too: they never reach the answer", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  const changes = [
    ...book.part(part("r", "m", "", { type: "reasoning" })),
    ...book.delta("m", "r", "secret thought"),
    ...book.part(part("r", "m", "secret thought", { type: "reasoning", ...finished })),
    ...book.part(part("p", "m", "answer", finished)),
  ];
  expect(assembled(changes)).toEqual(["answer"]);
});

test("deltas before their part wait until its kind is known", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  expect(book.delta("m", "r", "thought")).toEqual([]);
  expect(book.delta("m", "p", "answer")).toEqual([]);
  expect(book.part(part("r", "m", "", { type: "reasoning" }))).toEqual([]);
  expect(assembled(book.part(part("p", "m", "")))).toEqual(["answer"]);
});

test("users, summaries, synthetic and transient parts are not the answer", () => {
  const book = createTextBook(new Set());
  book.declare("mu", "user", false);
  book.declare("ms", "assistant", true);
  book.declare("m", "assistant", false);
  const changes = [
    ...book.part(part("p1", "mu", "user", finished)),
    ...book.delta("mu", "p1", "more"),
    ...book.part(part("p2", "ms", "summary", finished)),
    ...book.part(part("p3", "m", "synthetic", { synthetic: true, ...finished })),
    ...book.part(part("p4", "m", "⠋ Initializing", { metadata: { "kilocode.lifecycle": "transient" } })),
    ...book.part(part("p5", "m", "answer", finished)),
  ];
  expect(assembled(changes)).toEqual(["answer"]);
});

test("parts wait for the role of their message, in their own order", () => {
  const book = createTextBook(new Set());
  expect(book.part(part("p1", "m", "one", finished))).toEqual([]);
  expect(book.part(part("p2", "m", "two", finished))).toEqual([]);
  expect(book.undeclared()).toEqual(["m"]);
  expect(assembled(book.declare("m", "assistant", false))).toEqual(["one", "two"]);
  expect(book.undeclared()).toEqual([]);
});

test("earlier messages' parts are dropped at the door", () => {
  const book = createTextBook(new Set(["m_old"]));
  book.declare("m_old", "assistant", false);
  expect(book.part(part("p", "m_old", "old", finished))).toEqual([]);
  expect(book.delta("m_old", "p", "er")).toEqual([]);
  expect(book.undeclared()).toEqual([]);
});

test("a retry takes back what was not finished, whether its role was known or not", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  const told = [
    ...book.part(part("p0", "m", "kept", finished)),
    ...book.part(part("p1", "m", "")),
    ...book.delta("m", "p1", "cut"),
  ];
  book.part(part("p2", "m_late", ""));
  book.delta("m_late", "p2", "cut too");
  const taken = book.withdrawUnfinished();
  expect(taken).toEqual([{ kind: "withdrawn", part: "p1" }]);
  const later = [
    ...book.declare("m_late", "assistant", false),
    ...book.delta("m", "p1", "more"),
    ...book.part(part("p1", "m", "cut more", finished)),
    ...book.part(part("p3", "m", "again", finished)),
  ];
  expect(assembled([...told, ...taken, ...later])).toEqual(["kept", "again"]);
});

test("what is held for messages without a role is bounded: beyond it goes, and what is declared stays", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  book.part(part("p", "m", "x".repeat(HELD_CHARS), finished));
  book.part(part("h1", "m_late", "y".repeat(HELD_CHARS), finished));
  expect(book.undeclared()).toEqual(["m_late"]);
  book.part(part("h2", "m_later", "z", finished));
  expect(book.undeclared()).toEqual([]);
  expect(book.declare("m_late", "assistant", false)).toEqual([]);
  expect(assembled(book.part(part("q", "m", "still here", finished)))).toEqual(["still here"]);
});

test("a part that the CLI takes back is withdrawn once, and only where it was told", () => {
  const book = createTextBook(new Set());
  book.declare("m", "assistant", false);
  const changes = [
    ...book.part(part("p1", "m", "one", finished)),
    ...book.part(part("p2", "m", "two", finished)),
  ];
  const transient = { synthetic: true, metadata: { "kilocode.lifecycle": "transient" } };
  book.part(part("p3", "m", "⠋ Initializing snapshot…", transient));
  changes.push(...book.removePart("p1"));
  expect(book.removePart("p1")).toEqual([]);
  expect(book.removePart("p3")).toEqual([]);
  expect(book.removePart("unknown")).toEqual([]);
  expect(assembled(changes)).toEqual(["two"]);
});

test("a message that the CLI takes back takes its own parts along, told or waiting for a role, and no others", () => {
  const book = createTextBook(new Set());
  book.declare("m1", "assistant", false);
  book.declare("m2", "assistant", false);
  const changes = [
    ...book.part(part("p1", "m1", "one", finished)),
    ...book.part(part("p2", "m2", "two", finished)),
    ...book.part(part("p3", "m2", "three")),
    ...book.part(part("p4", "m3", "held", finished)),
    ...book.removeMessage("m2"),
    ...book.removeMessage("m3"),
    ...book.declare("m3", "assistant", false),
  ];
  expect(assembled(changes)).toEqual(["one"]);
});
