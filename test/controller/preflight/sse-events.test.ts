import { expect, test } from "vitest";
import { createSseEvents } from "../../../controller/preflight/sse-events.ts";

const TEXT = ": a comment\r\ndata: one\r\n\r\nevent: x\ndata: tw\u00f6\ndata: lines\n\ndata: 🙂\n\n";
const EVENTS = ["one", "twö\nlines", "🙂"];

test("the same events come whole, byte by byte, and cut at each place", () => {
  const bytes = Buffer.from(TEXT);
  const read = (pieces: Buffer[]) => {
    const events = createSseEvents(1000);
    return pieces.flatMap((piece) => events.feed(piece) ?? ["beyond"]);
  };
  expect(read([bytes])).toEqual(EVENTS);
  expect(read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(EVENTS);
  for (let at = 0; at <= bytes.length; at += 1) {
    expect(read([bytes.subarray(0, at), bytes.subarray(at)]), String(at)).toEqual(EVENTS);
  }
});

test("an event beyond the limit is told, and nothing more is taken", () => {
  const events = createSseEvents(100);
  expect(events.feed(Buffer.from("data: a\n\n"))).toEqual(["a"]);
  expect(events.feed(Buffer.from(`data: ${"x".repeat(200)}`))).toBeNull();
  expect(events.feed(Buffer.from("\n\ndata: b\n\n"))).toBeNull();
});
