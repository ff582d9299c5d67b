import fc from "fast-check";
import { expect, test } from "vitest";
import { createSseFraming } from "../../../controller/relay/sse-framing.ts";
import { tellingWords } from "../../../controller/relay/telling-words.ts";

function framed(pieces: ReadonlyArray<string | Buffer>, limitBytes = 1000) {
  const told: string[] = [];
  const framing = createSseFraming({ onData: (data) => told.push(data), limitBytes });
  for (const piece of pieces) framing.take(Buffer.from(piece));
  framing.end();
  return { told, skipped: framing.skipped };
}

test("data of an event is told at its blank line: lines joined, one blank cut, other fields passed over", () => {
  const text =
    "event: a\nid: 7\nretry: 1\n: note\ndata: one\ndata:two\ndata:  three\ndata\n\ndatum: no\n\ndata: last\n\n";
  expect(framed([text]).told).toEqual(["one\ntwo\n three\n", "last"]);
});

test("all three line ends count, a carriage return and its line feed as one however they are cut", () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    const text = ["data: a", "data: b", "", "data: c", "", ""].join(end);
    for (let at = 0; at <= text.length; at += 1)
      expect(framed([text.slice(0, at), text.slice(at)]).told, JSON.stringify([end, at])).toEqual([
        "a\nb",
        "c",
      ]);
  }
});

test("a byte order mark before the first line is none of it, and one elsewhere is", () => {
  expect(framed(["\u{feff}data: a\n\n\u{feff}data: b\n\n"]).told).toEqual(["a"]);
});

test("what the end leaves without a blank line is told", () => {
  expect(framed(["data: a\n\ndata: b"]).told).toEqual(["a", "b"]);
  expect(framed(["data: a\n"]).told).toEqual(["a"]);
  expect(framed([""]).told).toEqual([]);
});

test("characters of several bytes may be cut anywhere", () => {
  const bytes = Buffer.from("data: ä€😀\n\n");
  for (let at = 0; at <= bytes.length; at += 1)
    expect(framed([bytes.subarray(0, at), bytes.subarray(at)]).told).toEqual(["ä€😀"]);
});

test("an event over the limit is passed over whole and counted once, by its lines together too", () => {
  const long = `data: ${"x".repeat(2000)}\n`;
  const lines = "data: some\n".repeat(200);
  const text = `data: a\n\n${long}data: tail\n\ndata: b\n\n${lines}\ndata: c\n\n`;
  for (const size of [1, 3, 100, 10_000]) {
    const pieces = text.match(new RegExp(`.{1,${size}}`, "gs")) ?? [];
    expect(framed(pieces), String(size)).toEqual({ told: ["a", "b", "c"], skipped: 2 });
  }
  expect(framed(["data: ".padEnd(1000, "x"), "\n\n"]).skipped).toBe(0);
  expect(framed(["data: ".padEnd(1001, "x"), "\n\n"]).skipped).toBe(1);
});

test("an event over the limit that never ends is counted, and not told", () => {
  expect(framed([`data: ${"x".repeat(2000)}`])).toEqual({ told: [], skipped: 1 });
});

test("what is handed in may be written over afterwards", () => {
  const told: string[] = [];
  const framing = createSseFraming({ onData: (data) => told.push(data) });
  const chunk = Buffer.from("data: abc");
  framing.take(chunk);
  chunk.fill("z");
  framing.take(Buffer.from("\n\n"));
  expect(told).toEqual(["abc"]);
});

test("any bytes in any pieces are read as they are whole", () => {
  const some = fc.constantFrom(
    "data: a",
    "data:",
    "data",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    ": c",
    "event: e",
    "é",
    "xyz",
  );
  const input = fc.record({
    words: fc.array(some, { maxLength: 40 }),
    cuts: fc.array(fc.nat(300), { maxLength: 20 }),
  });
  fc.assert(
    fc.property(input, ({ words, cuts }) => {
      const bytes = Buffer.from(words.join(""));
      const edges = [0, ...cuts.map((at) => at % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
      const pieces = edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
      expect(framed(pieces, 30)).toEqual(framed([bytes], 30));
    }),
    { numRuns: 500 },
  );
});

const FIRST = 8;
const words = tellingWords(["usage"]);

/** With the words, and as a reference without them: all events, of which those are left that are first or have a word. */
function toldOf(bytes: Buffer, pieces: readonly Buffer[]) {
  const told: string[] = [];
  const framing = createSseFraming({ onData: (data) => told.push(data), words, limitBytes: 100_000 });
  for (const piece of pieces) framing.take(piece);
  framing.end();
  const expected = framed([bytes], 100_000).told.filter((data, at) => at < FIRST || words.isIn(data));
  return { told, expected };
}

test("behind the first events only those with a word are told, wherever the bytes are cut", () => {
  const text = [
    ...Array.from({ length: FIRST + 3 }, (_, at) => `data: {"n":${at}}`),
    'data: {"usage":null}',
    'data: {"usage":1}',
    ": a comment",
    'event: x\ndata: {"n":99}',
    'data: {"a":1,\ndata: "usage":2}',
    'data: {"n":100}',
    'data: {"usage":3}',
  ].join("\n\n");
  for (const end of ["\n", "\r\n", "\r"]) {
    const bytes = Buffer.from(`${text}\n\n`.replaceAll("\n", end));
    for (let at = 0; at <= bytes.length; at += 1) {
      const { told, expected } = toldOf(bytes, [bytes.subarray(0, at), bytes.subarray(at)]);
      expect(told).toEqual(expected);
    }
    expect(framed([bytes], 100_000).told.filter((data) => words.isIn(data))).toHaveLength(3);
  }
});

test("any events with any line ends in any pieces: those with a word are told as they would be without passing over", () => {
  const some = fc.constantFrom(
    'data: {"n":1}',
    'data: {"usage":null}',
    'data: {"usage":2}',
    'data: "usage"',
    'data: {"usage"',
    "data: : null}",
    ": usage",
    "event: usage",
    "data",
    "",
    "",
  );
  const end = fc.constantFrom("\n", "\n", "\n", "\r\n", "\r");
  const input = fc.record({
    first: fc.constantFrom(0, FIRST),
    lines: fc.array(fc.tuple(some, end), { maxLength: 40 }),
    cuts: fc.array(fc.nat(2000), { maxLength: 8 }),
  });
  fc.assert(
    fc.property(input, ({ first, lines, cuts }) => {
      const bytes = Buffer.from("data: 1\n\n".repeat(first) + lines.map((pair) => pair.join("")).join(""));
      const edges = [0, ...cuts.map((at) => at % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
      const pieces = edges.slice(1).map((to, at) => bytes.subarray(edges[at], to));
      const { told, expected } = toldOf(bytes, pieces);
      expect(told).toEqual(expected);
    }),
    { numRuns: 3000 },
  );
});
