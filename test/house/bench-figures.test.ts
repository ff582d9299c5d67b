import { expect, test } from "vitest";
import {
  differences,
  FIGURE_COLUMNS,
  figureRow,
  formatNumber,
  isMet,
  median,
  percentile,
  ratios,
  spreadOf,
  table,
  wrap,
} from "../bench/figures.ts";
import {
  checkWhole,
  deltaEvent,
  EVENT_BYTES,
  nativeId,
  readRecord,
  record,
  recordAt,
} from "../bench/parts/record.ts";
import { Scope } from "../bench/scope.ts";

test("a percentile is the value that so many are at or below", () => {
  const values = [5, 1, 4, 2, 3];
  expect([0, 0.2, 0.21, 0.5, 0.99, 1].map((share) => percentile(values, share))).toEqual([1, 1, 2, 3, 5, 5]);
  expect(values).toEqual([5, 1, 4, 2, 3]);
  expect(percentile([], 0.5)).toBeNaN();
});

test("the median of an even number of values lies between the middle two", () => {
  expect(median([4, 1, 3, 2])).toBe(2.5);
  expect(median([7])).toBe(7);
  expect(median([])).toBeNaN();
});

test("a spread has the middle, the ends and the number of runs", () => {
  expect(spreadOf([10, 30, 20])).toEqual({ median: 20, min: 10, max: 30, runs: 3 });
});

test("runs are held against the baseline of their own round", () => {
  expect(ratios([10, 30], [20, 10])).toEqual([0.5, 3]);
  expect(differences([10, 30], [20, 10])).toEqual([-10, 20]);
  expect(() => ratios([1], [1, 2])).toThrow("1 runs can't be held against 2");
});

test("an aim is met by the median, not by a single run", () => {
  const figure = (values: number[], aim?: { atLeast: number } | { atMost: number }) =>
    isMet({ what: "x", unit: "ms", values, ...(aim && { aim }) });
  expect(figure([1, 1, 9], { atMost: 2 })).toBe(true);
  expect(figure([1, 9, 9], { atMost: 2 })).toBe(false);
  expect(figure([0.5, 0.7, 0.7], { atLeast: 0.6 })).toBe(true);
  expect(figure([1])).toBeNull();
});

test.for([
  [0, "0"],
  [0.04123, "0.0412"],
  [4.1234, "4.12"],
  [-4.1234, "-4.12"],
  [41.23, "41.2"],
  [412.3, "412"],
  [41_234, "41 200"],
  [1_234_567, "1 230 000"],
  [-41_234, "-41 200"],
  [Number.NaN, "-"],
] as const)("%d is printed as %s", ([value, text]) => {
  expect(formatNumber(value)).toBe(text);
});

test("a table has numbers to the right and no blanks at a line's end", () => {
  const row = figureRow({ what: "rate", unit: "1/s", values: [1000, 2000, 3000], aim: { atLeast: 1 } });
  const lines = table(FIGURE_COLUMNS, [row, ["a longer name", "", "1", "1", "1", "1", "", ""]]).split("\n");
  expect(lines).toEqual([
    "measured       unit  median    min    max  runs      aim  met",
    "-------------  ----  ------  -----  -----  ----  -------  ---",
    "rate           1/s    2 000  1 000  3 000     3  >= 1.00  yes",
    "a longer name             1      1      1     1",
  ]);
});

test("text is broken at blanks", () => {
  expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
  expect(wrap("averylongword a b", 3)).toEqual(["averylongword", "a b"]);
});

test("a streamed event has 400 bytes, and its record can be read back", () => {
  const text = record(7, 1_234_567_890);
  const ids = { message: nativeId("msg", 1), part: nativeId("prt", 1) };
  expect(Buffer.byteLength(deltaEvent(ids, 7, text))).toBe(EVENT_BYTES);
  expect(readRecord(text)).toEqual({ number: 7, sentNs: 1_234_567_890 });
});

test("a missing, doubled or cut record is found", () => {
  const texts = [0, 1, 2].map((number) => record(number, 1));
  const [first = "", second = "", third = ""] = texts;
  expect(recordAt(texts.join(""), 1)).toBe(second);
  checkWhole(texts.join(""), 3);
  expect(() => checkWhole(first + third, 2)).toThrow("record 1 is missing");
  expect(() => checkWhole(first + first + third, 3)).toThrow("record 1 is missing");
  expect(() => checkWhole(first + second.slice(0, -1) + third, 3)).toThrow("no record");
});

test("a scope ends everything in the opposite order, once, and tells the first failure at the end", async () => {
  const ended: string[] = [];
  const scope = new Scope();
  scope.defer(() => ended.push("first"));
  scope.defer(() => {
    throw new Error("the second can't be ended");
  });
  scope.defer(async () => ended.push("third"));
  const closings = [scope.close(), scope.close()];
  await expect(closings[0]).rejects.toThrow("the second");
  await expect(closings[1]).rejects.toThrow("the second");
  expect(ended).toEqual(["third", "first"]);
});
