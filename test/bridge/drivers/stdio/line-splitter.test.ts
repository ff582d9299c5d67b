import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { createLineSplitter, LINE_BYTES } from "../../../../bridge/drivers/stdio/line-splitter.ts";

const MIB = 1024 * 1024;

/** What a splitter makes of these chunks: its lines, its rest, and the code with which it stopped. */
function split(chunks: Iterable<Uint8Array>, limitBytes?: number) {
  const splitter = createLineSplitter(limitBytes);
  const lines: string[] = [];
  try {
    for (const chunk of chunks) splitter.feed(chunk, (line) => lines.push(line));
  } catch (error) {
    return { lines, rest: splitter.rest(), code: (error as { code: string }).code };
  }
  return { lines, rest: splitter.rest(), code: null };
}

function* cutAt(bytes: Uint8Array, places: readonly number[]): Generator<Uint8Array> {
  let from = 0;
  for (const place of [...places, bytes.length]) {
    yield bytes.subarray(from, place);
    from = place;
  }
}

const everyByte = (bytes: Uint8Array) => cutAt(bytes, [...bytes.keys()]);

const text = fc.string({
  unit: fc.constantFrom("a", "é", "€", "🦑", "\r", "\n", "\u2028", "\u0085", "{"),
  maxLength: 24,
});

test("P25: characters of two, three and four bytes survive one byte a chunk", () => {
  const line = JSON.stringify({ type: "t", text: "Größe € 🦑 \u2028 \u0085 é̂" });
  expect(split(everyByte(Buffer.from(`${line}\n${line}\n`)))).toEqual({
    lines: [line, line],
    rest: "",
    code: null,
  });
  expect(line).not.toContain("\ufffd");
});

test("P26: any bytes cut at every place, and at any places together, are the same lines", () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat(80), { maxLength: 6 }), (content, places) => {
      const bytes = Buffer.from(content);
      const whole = split([bytes]);
      expect(split(everyByte(bytes))).toEqual(whole);
      for (const place of bytes.keys()) expect(split(cutAt(bytes, [place]))).toEqual(whole);
      const cuts = places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b);
      expect(split(cutAt(bytes, cuts))).toEqual(whole);
      // And they are what splitting the text at line feeds alone gives.
      const parts = content.split("\n").map((part) => part.replace(/\r$/, ""));
      expect([...whole.lines, whole.rest]).toEqual(parts);
    }),
  );
});

test("only a line feed ends a line: other line ends of Unicode and a lone carriage return stay inside", () => {
  const lines = ["a\u2028b\u2029c\u0085d", "e\rf", "g\r", "\u000b\f"];
  expect(split([Buffer.from("a\u2028b\u2029c\u0085d\ne\rf\r\ng\r\r\n\u000b\f\n")]).lines).toEqual(lines);
});

test("empty lines are lines, and what came behind the last line feed is given once", () => {
  const splitter = createLineSplitter();
  const lines: string[] = [];
  splitter.feed(Buffer.from("\n\nlast\r"), (line) => lines.push(line));
  expect(lines).toEqual(["", ""]);
  expect([splitter.rest(), splitter.rest()]).toEqual(["last", ""]);
});

test("the caller may use its buffer again", () => {
  const splitter = createLineSplitter();
  const lines: string[] = [];
  const buffer = Buffer.from("abc");
  splitter.feed(buffer, (line) => lines.push(line));
  buffer.write("d\n!");
  splitter.feed(buffer.subarray(0, 2), (line) => lines.push(line));
  expect(lines).toEqual(["abcd"]);
});

test("P27: a line beyond the limit stops the splitter behind the lines before it, wherever the chunks are cut", () => {
  const bytes = Buffer.from("ab\ncdefghij\nklmnopqrstu\nno\n");
  const stopped = { lines: ["ab", "cdefghij"], rest: "", code: "FRAME_TOO_LARGE" };
  expect(split([bytes], 10)).toEqual(stopped);
  expect(split(everyByte(bytes), 10)).toEqual(stopped);
  for (const place of bytes.keys()) expect(split(cutAt(bytes, [place]), 10)).toEqual(stopped);
  expect(split([bytes], 11)).toMatchObject({ lines: ["ab", "cdefghij", "klmnopqrstu", "no"], code: null });
});

test("P27: once it has stopped it takes and holds nothing more", () => {
  const splitter = createLineSplitter(10);
  const lines: string[] = [];
  const feed = (content: string) => () => splitter.feed(Buffer.from(content), (line) => lines.push(line));
  expect(feed("12345678901")).toThrow("frame too large");
  expect(feed("ok\n")).toThrow(expect.objectContaining({ code: "FRAME_TOO_LARGE" }));
  expect([lines, splitter.heldBytes(), splitter.rest()]).toEqual([[], 0, ""]);
});

function* chunksOf(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

test("P27: a line of 11 MB is a line like any other, and the small ones behind it follow", () => {
  const bytes = Buffer.concat([Buffer.alloc(11 * MIB, "x"), Buffer.from("\nsmall\nsmaller\n")]);
  const { lines, code } = split(chunksOf(bytes, 65_536));
  expect([lines.map(({ length }) => length), code]).toEqual([[11 * MIB, 5, 7], null]);
});

test("P27: 32 MB pass, and one byte more does not", () => {
  const line = Buffer.alloc(LINE_BYTES + 1, "x");
  const end = Buffer.from("\n");
  const fits = split([...chunksOf(line.subarray(1), 65_536), end]);
  expect([fits.lines[0]?.length, fits.code]).toEqual([32 * MIB, null]);
  expect(split([...chunksOf(line, 65_536), end])).toEqual({ lines: [], rest: "", code: "FRAME_TOO_LARGE" });
});

/** Bytes that are copied while the work is done. */
function copiedBytes(work: () => void): number {
  let bytes = 0;
  const set = vi.spyOn(Uint8Array.prototype, "set").mockImplementation(function (
    this: Uint8Array,
    source,
    at,
  ) {
    bytes += source.length;
    // What `set` does, without itself.
    Buffer.from(source as Uint8Array).copy(this, at);
  });
  const concat = vi.spyOn(Buffer, "concat").mockImplementation((list, length) => {
    bytes += list.reduce((sum, part) => sum + part.length, 0);
    return Buffer.alloc(length ?? 0);
  });
  work();
  set.mockRestore();
  concat.mockRestore();
  return bytes;
}

test("P27: 32 MB in chunks of 64 KB are copied three times at most, and so are 4 MB: linear", () => {
  for (const bytes of [4 * MIB, 32 * MIB - 1]) {
    const chunks = [...chunksOf(Buffer.alloc(bytes, "x"), 65_536), Buffer.from("\n")];
    let lines = 0;
    const copied = copiedBytes(() => {
      const splitter = createLineSplitter();
      for (const chunk of chunks) splitter.feed(chunk, () => (lines += 1));
    });
    expect(lines).toBe(1);
    expect(copied / bytes).toBeGreaterThanOrEqual(1);
    expect(copied / bytes).toBeLessThan(3);
  }
});

test("P27: a line that comes byte by byte takes no more memory than one that comes at once", () => {
  const splitter = createLineSplitter();
  const byte = Buffer.from("x");
  const before = process.memoryUsage();
  for (let at = 0; at < 2 * MIB; at += 1) splitter.feed(byte, () => undefined);
  const after = process.memoryUsage();
  const grownBytes = after.heapUsed - before.heapUsed + after.arrayBuffers - before.arrayBuffers;
  expect(splitter.heldBytes()).toBe(2 * MIB);
  // One object for each byte would be some hundred megabytes.
  expect(grownBytes).toBeLessThan(64 * MIB);
});
