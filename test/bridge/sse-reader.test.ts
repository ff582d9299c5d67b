import { expect, test } from "vitest";
import { createSseReader } from "../../bridge/sse-reader.ts";

const STREAM = Buffer.from(
  [
    ": a comment, as a heartbeat\n\n",
    'id: 1\nevent: message\ndata: {"a":"Größe 🦑"}\n\n',
    "data: two\r\ndata: lines\r\n\r\n",
    "unknown: field\ndata: three\n\n",
    "data: half of the next",
  ].join(""),
);
const WHOLE = ['{"a":"Größe 🦑"}', "two\nlines", "three"];

test("a stream in one chunk gives each event's data, in order", () => {
  expect(createSseReader().feed(STREAM)).toEqual(WHOLE);
});

test("byte by byte gives the same, across characters of several bytes", () => {
  const reader = createSseReader();
  expect([...STREAM].flatMap((byte) => reader.feed(Uint8Array.of(byte)))).toEqual(WHOLE);
});

test("a cut at every place gives the same", () => {
  for (let at = 0; at <= STREAM.length; at += 1) {
    const reader = createSseReader();
    const data = [...reader.feed(STREAM.subarray(0, at)), ...reader.feed(STREAM.subarray(at))];
    expect(data, `cut at ${at}`).toEqual(WHOLE);
  }
});

test("an event that is not whole is not handed out", () => {
  const reader = createSseReader();
  expect(reader.feed(Buffer.from("data: x\n"))).toEqual([]);
  expect(reader.feed(Buffer.from("\n"))).toEqual(["x"]);
});

test("an event beyond the limit is an error, and nothing more is taken", () => {
  const reader = createSseReader(100);
  expect(reader.feed(Buffer.from(`data: ${"x".repeat(50)}\n\n`))).toHaveLength(1);
  expect(() => reader.feed(Buffer.from(`data: ${"y".repeat(200)}`))).toThrow(/exceeds 100 characters/);
  expect(() => reader.feed(Buffer.from("\n\ndata: z\n\n"))).toThrow(
    expect.objectContaining({ code: "OUTPUT_LIMIT" }),
  );
});

test("many small chunks of one event count together against the limit", () => {
  const reader = createSseReader(100);
  const feedAll = () => {
    for (let n = 0; n < 30; n += 1) reader.feed(Buffer.from(n === 0 ? "data: " : "0123456789"));
  };
  expect(feedAll).toThrow(expect.objectContaining({ code: "OUTPUT_LIMIT" }));
});
