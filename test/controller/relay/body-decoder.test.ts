import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { createBodyDecoder, decodeBody } from "../../../controller/relay/body-decoder.ts";

const TEXT = Buffer.from("data: one and the same text, and again one and the same text\n\n".repeat(50));
const CODED: ReadonlyArray<[string | null, Buffer]> = [
  [null, TEXT],
  ["", TEXT],
  ["identity", TEXT],
  ["gzip", gzipSync(TEXT)],
  [" GZIP ", gzipSync(TEXT)],
  ["deflate", deflateSync(TEXT)],
  ["br", brotliCompressSync(TEXT)],
  ["zstd", zstdCompressSync(TEXT)],
];

async function decoded(coding: string | null, pieces: readonly Buffer[]) {
  const told: Buffer[] = [];
  const decoder = createBodyDecoder(coding, (bytes) => told.push(bytes));
  for (const piece of pieces) decoder.take(piece);
  const isWhole = await decoder.end();
  return { text: Buffer.concat(told), isWhole };
}

test.for(CODED)("%s: pieces are decoded to the very bytes", async ([coding, bytes]) => {
  const middle = bytes.length >> 1;
  const { text, isWhole } = await decoded(coding, [bytes.subarray(0, middle), bytes.subarray(middle)]);
  expect(isWhole).toBe(true);
  expect(text.equals(TEXT)).toBe(true);
  expect(decodeBody(coding, bytes, TEXT.length)?.equals(TEXT)).toBe(true);
});

test("a body that is damaged, cut at its start or coded in an unknown way is not whole, and no error", async () => {
  for (const [coding, bytes] of [
    ["gzip", TEXT],
    ["br", Buffer.alloc(100, 255)],
    ["zstd", TEXT],
    ["gzip, br", gzipSync(TEXT)],
    ["dcb", TEXT],
  ] as const) {
    expect((await decoded(coding, [bytes])).isWhole, coding).toBe(false);
    expect(decodeBody(coding, bytes, 100_000), coding).toBeNull();
  }
});

test("pieces behind the damage are taken and dropped", async () => {
  const told: Buffer[] = [];
  const decoder = createBodyDecoder("gzip", (bytes) => told.push(bytes));
  decoder.take(TEXT);
  await new Promise((resolve) => setImmediate(resolve));
  for (let at = 0; at < 100; at += 1) decoder.take(TEXT);
  expect(await decoder.end()).toBe(false);
  expect(told).toEqual([]);
});

test("more than may wait for the decoder ends the reading", async () => {
  const decoder = createBodyDecoder("gzip", () => undefined);
  const noise = gzipSync(Buffer.alloc(1024));
  decoder.take(Buffer.concat([noise, Buffer.alloc(9 * 1024 * 1024)]));
  expect(await decoder.end()).toBe(false);
});

test("a body that unfolds beyond the limit is not decoded at once", () => {
  const bomb = gzipSync(Buffer.alloc(1024 * 1024));
  expect(decodeBody("gzip", bomb, 1024 * 1024)?.length).toBe(1024 * 1024);
  expect(decodeBody("gzip", bomb, 1024 * 1024 - 1)).toBeNull();
  expect(decodeBody(null, Buffer.alloc(11), 10)).toBeNull();
});
