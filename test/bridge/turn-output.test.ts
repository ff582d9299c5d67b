import fc from "fast-check";
import { expect, test } from "vitest";
import { createTurnOutput } from "../../bridge/turn-output.ts";

test("parts keep the order in which they were first seen, each once", () => {
  const output = createTurnOutput();
  output.put("b", 0, "Grö");
  output.put("a", 0, "tail");
  output.put("b", 3, "ße 🦑");
  expect(output.parts()).toEqual(["Größe 🦑", "tail"]);
  expect(output.partIds()).toEqual(["b", "a"]);
  expect(output.isCut()).toBe(false);
});

test("text from a place inside a part replaces what was beyond", () => {
  const output = createTurnOutput();
  output.put("a", 0, "one two");
  output.put("a", 4, "three");
  expect(output.text("a")).toBe("one three");
  output.put("a", 0, "x");
  expect(output.text("a")).toBe("x");
});

test("a withdrawn part is gone, and its room is free again", () => {
  const output = createTurnOutput(10);
  output.put("a", 0, "0123456789");
  output.withdraw("a");
  output.withdraw("never there");
  output.put("b", 0, "abcdefghij");
  expect(output.parts()).toEqual(["abcdefghij"]);
  expect(output.isCut()).toBe(false);
});

test("parts without text are not reported", () => {
  const output = createTurnOutput();
  output.put("a", 0, "");
  expect(output.parts()).toEqual([]);
  expect(output.text("unknown")).toBe("");
});

test("beyond the limit text is cut, and it is said", () => {
  const output = createTurnOutput(10);
  output.put("a", 0, "0123456");
  output.put("b", 0, "abcdef");
  expect(output.parts()).toEqual(["0123456", "abc"]);
  expect(output.isCut()).toBe(true);
});

test("after a cut a part never goes on behind its hole", () => {
  const output = createTurnOutput(10);
  output.put("a", 0, "01234567");
  output.put("b", 0, "abcdef");
  output.withdraw("a");
  // The source goes on where it believes the part to end: four characters of it were never kept.
  output.put("b", 6, "ghij");
  expect(output.text("b")).toBe("ab");
  expect(output.isCut()).toBe(true);
});

test("a cut never leaves half a surrogate pair", () => {
  const output = createTurnOutput(5);
  output.put("a", 0, "abcd🦑x");
  expect(output.text("a")).toBe("abcd");
  expect(output.isCut()).toBe(true);
});

test("whatever is put and withdrawn, parts are prefixes of the source and the sum stays in the limit", () => {
  const step = fc.record({
    part: fc.constantFrom("a", "b", "c"),
    at: fc.nat(30),
    text: fc.string({ unit: "grapheme", maxLength: 12 }),
    withdraw: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.integer({ min: 1, max: 40 }), (steps, limit) => {
      const output = createTurnOutput(limit);
      const source = new Map<string, string>();
      for (const { part, at, text, withdraw } of steps) {
        if (withdraw) {
          output.withdraw(part);
          source.delete(part);
          continue;
        }
        const before = source.get(part) ?? "";
        const from = Math.min(at, before.length);
        source.set(part, before.slice(0, from) + text);
        output.put(part, from, text);
      }
      const kept = output.partIds().map((part) => output.text(part));
      expect(kept.join("").length).toBeLessThanOrEqual(limit);
      for (const part of output.partIds()) {
        expect(source.get(part)?.startsWith(output.text(part))).toBe(true);
      }
      if (!output.isCut()) for (const [part, text] of source) expect(output.text(part)).toBe(text);
    }),
  );
});
