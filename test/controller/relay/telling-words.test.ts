import fc from "fast-check";
import { expect, test } from "vitest";
import { tellingWords } from "../../../controller/relay/telling-words.ts";

const WORDS = tellingWords(["usage", "error", "response.done"]);

/** Every place that is found, one after the other. */
function places(text: string, words = WORDS): number[] {
  const bytes = Buffer.from(text);
  const next = words.finder(bytes);
  const found: number[] = [];
  for (let at = next(0); at < bytes.length; at = next(at + 1)) found.push(at);
  return found;
}

test("a word tells as a value, and as a key whose value is not null", () => {
  for (const text of [
    '{"usage":{}}',
    '{"usage" : 0}',
    '{"usage"\t:\t"x"}',
    '{"type":"error"}',
    '["usage"]',
    '{"usage":',
    '"usage"',
    '{"type":"response.done"}',
    '{"usage":null,"error":1}',
  ]) {
    expect(WORDS.isIn(text), text).toBe(true);
    expect(places(text), text).toHaveLength(1);
  }
});

test("a null tells nothing, nor does a longer word or a word in a text", () => {
  for (const text of [
    "",
    '{"usage":null}',
    '{"usage" \t: \tnull}',
    '{"usages":1}',
    '{"my usage":1}',
    '{"text":"\\"usage\\":{}"}',
    '{"type":"responsexdone"}',
    '{"usage":null,"error":null}',
  ]) {
    expect(WORDS.isIn(text), text).toBe(false);
    expect(places(text), text).toEqual([]);
  }
});

test("words are found in order, each from where it is asked for, over nulls", () => {
  const text = '"usage":null "error":1 "usage":null "usage":2 "response.done"';
  expect(places(text)).toEqual([13, 36, 46]);
  const next = WORDS.finder(Buffer.from(text));
  expect([next(0), next(0), next(14), next(37), next(47)]).toEqual([13, 13, 36, 46, text.length]);
});

test("the finder finds something exactly where the decoded text has it", () => {
  const some = fc.constantFrom(
    '"usage"',
    '"error"',
    ":",
    " ",
    "\t",
    "null",
    "n",
    "{}",
    '"',
    "\\",
    "é",
    "x",
    ",",
  );
  fc.assert(
    fc.property(fc.array(some, { maxLength: 30 }), (pieces) => {
      const text = pieces.join("");
      expect(places(text).length > 0).toBe(WORDS.isIn(text));
    }),
    { numRuns: 2000 },
  );
});
