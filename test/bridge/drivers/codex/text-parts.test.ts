import { expect, test } from "vitest";
import {
  createTextParts,
  type TextChange,
  type TextParts,
} from "../../../../bridge/drivers/codex/text-parts.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";

/** What a reader has after all of it. */
function read(play: (texts: TextParts) => TextChange[][]): { parts: string[]; changes: TextChange[] } {
  const output = createTurnOutput();
  const changes = play(createTextParts()).flat();
  for (const change of changes) {
    if (change.kind === "text") output.put(change.part, change.from, change.text);
    else output.withdraw(change.part);
  }
  return { parts: output.parts(), changes };
}

test("deltas are told as they come, and an end that says the same adds nothing", () => {
  const { parts, changes } = read((texts) => [
    texts.started("a"),
    texts.delta("a", "one "),
    texts.delta("a", ""),
    texts.delta("a", "two"),
    texts.completed("a", "one two"),
  ]);
  expect(parts).toEqual(["one two"]);
  expect(changes).toHaveLength(2);
});

test.each([
  ["more", "one", "one two", "one two"],
  ["less", "one two", "one", "one"],
  ["another end", "one two", "one three", "one three"],
  ["something else", "one", "two", "two"],
  ["all of it", "", "whole", "whole"],
])("the item's end has the last word: %s", (_, delta, end, expected) => {
  expect(read((texts) => [texts.delta("a", delta), texts.completed("a", end)]).parts).toEqual([expected]);
});

test("a message without text is none, and is an answer all the same", () => {
  const texts = createTextParts();
  expect(texts.hasAnswer()).toBe(false);
  expect(texts.completed("a", "")).toEqual([]);
  expect(texts.hasAnswer()).toBe(true);
});

test("what was open is taken back, what was completed stays, and the next try is told anew", () => {
  const { parts } = read((texts) => [
    texts.completed("a", "first"),
    texts.delta("b", "half of"),
    texts.withdrawOpen(),
    texts.withdrawOpen(),
    texts.started("b"),
    texts.delta("b", "whole"),
    texts.completed("b", "whole"),
  ]);
  expect(parts).toEqual(["first", "whole"]);
});

test("an item that begins again without an end loses what it had said", () => {
  const { parts } = read((texts) => [
    texts.delta("a", "old"),
    texts.started("a"),
    texts.delta("a", "new"),
    texts.completed("a", "new"),
  ]);
  expect(parts).toEqual(["new"]);
});

test("a provider that calls all its messages alike overwrites none of them", () => {
  const { parts } = read((texts) => [
    texts.completed("msg", "one"),
    texts.delta("msg", "two"),
    texts.completed("msg", "two"),
    texts.completed("msg", "three"),
  ]);
  expect(parts).toEqual(["one", "two", "three"]);
});
