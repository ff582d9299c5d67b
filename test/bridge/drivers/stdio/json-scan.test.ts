import fc from "fast-check";
import { expect, test } from "vitest";
import { NESTED_LEVELS, scanJson } from "../../../../bridge/drivers/stdio/json-scan.ts";

const scan = (text: string, maxContainers = 1000) => scanJson(text, 0, maxContainers);
const composed = fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue()));

test("every object and list that JSON.stringify writes ends where it ends, whatever follows", () => {
  fc.assert(
    fc.property(composed, fc.string(), fc.nat(3), (value, behind, indent) => {
      const json = JSON.stringify(value, null, indent);
      expect(scan(json + behind)).toMatchObject({ kind: "end", at: json.length });
    }),
  );
});

test("cut at any place it is cut, and never whole", () => {
  fc.assert(
    fc.property(composed, (value) => {
      const json = JSON.stringify(value);
      for (let at = 1; at < json.length; at += 1) expect(scan(json.slice(0, at)).kind).toBe("cut");
    }),
  );
});

test("what is no JSON is given up at its first wrong character, and whether it was more than a brace is said", () => {
  const cases: Array<[string, number, boolean]> = [
    ["{ foo }", 2, false],
    ["{{", 1, false],
    ['{"a" "b"}', 5, false],
    ['{"a":1,}', 7, true],
    ['{"a":1]', 6, true],
    ['{"a":[1}', 7, true],
    ['{"a":1 "b"', 7, true],
    ['{"a":,', 5, true],
    ["[,]", 1, false],
    ["[1 2]", 3, false],
    ['{"a":{"b":1},oops', 13, true],
  ];
  for (const [text, at, hasKey] of cases) {
    expect([text, scan(text)]).toEqual([text, expect.objectContaining({ kind: "broken", at, hasKey })]);
  }
});

test("quotes and backslashes in texts do not end them", () => {
  for (const inner of ['"', '\\"', "\\\\", '{"}', "a\\", "\\\\\\"]) {
    const json = JSON.stringify({ text: inner, [inner]: [inner] });
    expect(scan(`${json}"`)).toMatchObject({ kind: "end", at: json.length });
  }
});

test("it goes as deep as its limit and no deeper, in lists and objects", () => {
  const lists = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  const objects = (levels: number) => `${'{"a":'.repeat(levels - 1)}{}${"}".repeat(levels - 1)}`;
  for (const nested of [lists, objects]) {
    expect(scan(nested(NESTED_LEVELS), 1e6).kind).toBe("end");
    expect(scan(nested(NESTED_LEVELS + 1), 1e6).kind).toBe("excess");
  }
});

test("it counts lists and objects, and takes no more than it may", () => {
  expect(scan("[[],{},[{}]]", 5)).toMatchObject({ kind: "end", containers: 5 });
  expect(scan("[[],{},[{}]]", 4)).toMatchObject({ kind: "excess" });
});

test("a first key as no protocol has one is given up, a later one may be long", () => {
  const long = "k".repeat(300);
  expect(scan(`{"${long}":1}`).kind).toBe("broken");
  expect(scan(`{"a":1,"${long}":1}`).kind).toBe("end");
  expect(scan(`{"${long}`).kind).toBe("cut");
});
