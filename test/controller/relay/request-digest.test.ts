import { gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { DIGESTED_BYTES, digestRequest, RequestDigest } from "../../../controller/relay/request-digest.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { chatBody, digestOf } from "./calls.ts";

const BODY = chatBody(["SECRET-TEXT one", "SECRET-TEXT two", "SECRET-TEXT three"]);

test("a digest is what its schema says: sizes, digests, hints, and no text", () => {
  const digest = digestOf(BODY, { "x-session-id": "ses_1", authorization: "Bearer SECRET-KEY" });
  expect(RequestDigest.parse(digest)).toEqual(digest);
  expect(digest).toMatchObject({ model: "m1", session: "ses_1", agent: null, tools: { count: 1 } });
  expect(digest.blocks).toHaveLength(3);
  expect(digest.bodyBytes).toBe(JSON.stringify(BODY).length);
  const kept = JSON.stringify(digest);
  for (const secret of ["SECRET", "You are one", "bash", "Bearer"]) expect(kept).not.toContain(secret);
});

test("each part has its own digest: a change of one leaves the others", () => {
  const before = digestOf(BODY);
  const changed = (body: object) => {
    const after = digestOf(body);
    const parts = ["system", "tools", "parameters"] as const;
    return [
      ...parts.filter((part) => after[part].digest !== before[part].digest),
      ...after.blocks.flatMap(({ digest }, at) => (digest === before.blocks[at]?.digest ? [] : [at])),
    ];
  };
  expect(changed(BODY)).toEqual([]);
  expect(changed({ ...BODY, tools: [] })).toEqual(["tools"]);
  expect(changed({ ...BODY, temperature: 1 })).toEqual(["parameters"]);
  expect(changed({ ...BODY, stream: false })).toEqual([]);
  expect(changed(chatBody(["SECRET-TEXT one", "SECRET-TEXT 2", "SECRET-TEXT three", "x"]))).toEqual([1, 3]);
});

test("a coded body has the parts of the plain one, and the digest of its own bytes", () => {
  const plain = Buffer.from(JSON.stringify(BODY));
  const expected = digestRequest("chat-completions", {}, plain);
  for (const [coding, bytes] of [
    ["gzip", gzipSync(plain)],
    ["zstd", zstdCompressSync(plain)],
  ] as const) {
    const digest = digestRequest("chat-completions", { "content-encoding": coding }, bytes);
    expect(digest).toMatchObject({
      blocks: expected?.blocks,
      rawPieces: expected?.rawPieces,
      bodyBytes: bytes.length,
    });
    expect(digest?.bodySha256).not.toBe(expected?.bodySha256);
  }
  expect(digestRequest("chat-completions", { "content-encoding": "br" }, plain)).toBeNull();
});

test("raw pieces cover whole kilobytes", () => {
  const at = (chars: number) => digestOf({ messages: [], pad: "x".repeat(chars) }).rawPieces.length;
  const frame = JSON.stringify({ messages: [], pad: "" }).length;
  expect(at(1023 - frame)).toBe(0);
  expect(at(1024 - frame)).toBe(1);
  expect(at(5 * 1024 * 1024)).toBe(4096);
});

test("more blocks than are looked at give no digest", () => {
  const messages = Array.from({ length: 8001 }, () => ({ role: "user", content: "a" }));
  const of = (given: object[]) =>
    digestRequest("chat-completions", {}, Buffer.from(JSON.stringify({ messages: given })));
  expect(of(messages)).toBeNull();
  expect(of(messages.slice(1))?.blocks).toHaveLength(8000);
});

test("a body over the limit gets no digest, and one that unfolds beyond it neither", () => {
  const pad = (bytes: number) => Buffer.from(`{"messages":[]}${" ".repeat(bytes - 15)}`);
  const of = (body: Buffer, headers = {}) => digestRequest("chat-completions", headers, body);
  expect(of(pad(DIGESTED_BYTES))).not.toBeNull();
  expect(of(pad(DIGESTED_BYTES + 1))).toBeNull();
  expect(of(gzipSync(pad(DIGESTED_BYTES + 1)), { "content-encoding": "gzip" })).toBeNull();
});

test("a body that is nested without end is no error", () => {
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  for (const body of [
    `{"messages":[{"role":"user","content":${deep}}]}`,
    `{"messages":[],"x":${deep}}`,
    deep,
  ])
    expect(digestRequest("chat-completions", {}, Buffer.from(body))).toBeNull();
});

test("any bytes of any protocol, with any headers: a good digest or none, never an error", () => {
  const message = fc.record({ role: fc.jsonValue(), content: fc.jsonValue(), tool_calls: fc.jsonValue() });
  const body = fc.oneof(
    fc.jsonValue(),
    fc.record({
      model: fc.jsonValue(),
      messages: fc.oneof(fc.jsonValue(), fc.array(fc.oneof(message, fc.jsonValue()))),
      input: fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue())),
      tools: fc.jsonValue(),
      system: fc.jsonValue(),
      prompt_cache_key: fc.jsonValue(),
    }),
  );
  const input = fc.record({
    protocol: fc.constantFrom(...ModelProtocol.options),
    bytes: fc.oneof(
      body.map((value) => Buffer.from(JSON.stringify(value))),
      fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
    ),
    headers: fc.dictionary(
      fc.constantFrom("x-session-id", "session-id", "thread-id", "content-encoding"),
      fc.oneof(fc.string(), fc.constantFrom("gzip", "br", "ses_1")),
    ),
  });
  fc.assert(
    fc.property(input, ({ protocol, bytes, headers }) => {
      const digest = digestRequest(protocol, headers, bytes);
      if (digest !== null) expect(RequestDigest.safeParse(digest).error).toBeUndefined();
    }),
    { numRuns: 500 },
  );
});
