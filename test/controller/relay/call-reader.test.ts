// S24: where a statement of usage stands decides what it is worth; and however the bytes come, they are read the same.
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UNKNOWN_USAGE } from "../../../controller/relay/call-usage.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { KNOWN } from "./calls.ts";
import {
  ANSWER_IDS,
  frame,
  KINDS,
  PLACES,
  type Place,
  readIn,
  type Shape,
  STATED,
  stream,
} from "./streams.ts";

const PROTOCOLS = ModelProtocol.options;
const SHAPES: Shape[] = PLACES.flatMap((place) =>
  KINDS.flatMap((kind) => [true, false].map((done) => ({ place, kind, done }))),
);
const CASES = PROTOCOLS.flatMap((protocol) => SHAPES.map((shape) => ({ protocol, ...shape })));

/** Zeros that are stated are known; what is not stated beside them is not. */
const ZERO = (protocol: ModelProtocol) => ({
  ...UNKNOWN_USAGE,
  state: "zero",
  inputTokens: 0,
  outputTokens: 0,
  allInputTokens: protocol === "messages" ? null : 0,
  allOutputTokens: 0,
});

/** The input that Messages states early stays known: its output alone is unknown. */
const EARLY = {
  ...UNKNOWN_USAGE,
  inputTokens: 30,
  cacheReadTokens: 60,
  cacheWriteTokens: 10,
  allInputTokens: 100,
};

function expected(protocol: ModelProtocol, place: Place): { usage: object; usageObserved: boolean } {
  switch (place) {
    case "same":
    case "after":
      return { usage: KNOWN, usageObserved: true };
    case "before":
      return { usage: protocol === "messages" ? EARLY : UNKNOWN_USAGE, usageObserved: true };
    case "absent":
      return { usage: UNKNOWN_USAGE, usageObserved: false };
    case "zero":
      return { usage: ZERO(protocol), usageObserved: true };
  }
}

test("twenty streams of each protocol make the table", () => {
  expect(CASES).toHaveLength(60);
});

test.for(CASES)("$protocol, usage $place, $kind, last word $done", async ({ protocol, ...shape }) => {
  const reading = await readIn(protocol, [Buffer.from(stream(protocol, shape))]);
  expect(reading).toMatchObject(expected(protocol, shape.place));
  expect(reading).toMatchObject({
    isTerminal: true,
    isError: false,
    isWhollyRead: true,
    model: "m1",
    providerId: ANSWER_IDS[protocol],
  });
});

const STOP_REASONS = {
  "chat-completions": { text: "stop", tool: "tool_calls" },
  responses: { text: "completed", tool: "completed" },
  messages: { text: "end_turn", tool: "tool_use" },
} as const;

test.for(PROTOCOLS)("%s: the stop reason is in the protocol's own words", async (protocol) => {
  for (const kind of KINDS) {
    const bytes = Buffer.from(stream(protocol, { place: "same", kind, done: true }));
    expect((await readIn(protocol, [bytes])).stopReason).toBe(STOP_REASONS[protocol][kind]);
  }
});

/** What is there in place of a statement: no more worth than none. */
const MALFORMED: readonly unknown[] = [
  0,
  null,
  {},
  [],
  "12",
  true,
  { prompt_tokens: 5, input_tokens: 5 },
  { completion_tokens: 5, output_tokens: 5 },
  { prompt_tokens: 5, completion_tokens: -1, input_tokens: 5, output_tokens: -1 },
  { prompt_tokens: 5.5, completion_tokens: 1, input_tokens: 5.5, output_tokens: 1 },
  { prompt_tokens: "5", completion_tokens: 1, input_tokens: "5", output_tokens: 1 },
  { prompt_tokens: 1e300, completion_tokens: 1, input_tokens: 1e300, output_tokens: 1 },
];

test.for(PROTOCOLS)(
  "%s: a scalar, null, an empty statement or one counter alone is unknown",
  async (protocol) => {
    for (const usage of MALFORMED) {
      const { usage: read, usageObserved } = await readIn(protocol, [Buffer.from(ending(protocol, usage))]);
      expect(read.state, JSON.stringify(usage)).toBe("unknown");
      expect(usageObserved, JSON.stringify(usage)).toBe(usage !== null);
    }
  },
);

/** The frame that ends an answer, with any value as its usage. */
function ending(protocol: ModelProtocol, usage: unknown): string {
  switch (protocol) {
    case "chat-completions":
      return frame({ choices: [{ finish_reason: "stop" }], usage });
    case "responses":
      return frame({ type: "response.completed", response: { status: "completed", usage } });
    case "messages":
      return frame({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage });
  }
}

test.for(PROTOCOLS)(
  "%s: figures beside an error are not final, and an answer in place of one is none",
  async (protocol) => {
    const usage = STATED[protocol];
    const error = { type: "server_error", message: "overloaded" };
    const reading = await readIn(protocol, [
      Buffer.from(frame({ type: "error", error, usage, response: { usage } })),
    ]);
    expect(reading).toMatchObject({ isError: true, isTerminal: false, usage: UNKNOWN_USAGE });
    const body = Buffer.from(JSON.stringify({ type: "error", error, usage }));
    const whole = await readIn(protocol, [body], { contentType: "application/json" });
    expect(whole).toMatchObject({
      isError: true,
      isTerminal: false,
      usage: UNKNOWN_USAGE,
      isWhollyRead: true,
    });
  },
);

test.for(PROTOCOLS)("%s: an answer that was cut before its end has no final figures", async (protocol) => {
  const text = stream(protocol, { place: "same", kind: "text", done: true });
  const at = text.indexOf(protocol === "messages" ? "event: message_delta" : '"finish_reason":"stop"');
  const end = protocol === "responses" ? text.indexOf("event: response.completed") : at;
  const reading = await readIn(protocol, [Buffer.from(text.slice(0, end))]);
  expect(reading).toMatchObject({ isTerminal: false, usage: { state: "unknown" }, stopReason: null });
});

const WHOLE: Readonly<Record<ModelProtocol, (usage: unknown) => object>> = {
  "chat-completions": (usage) => ({
    id: "chatcmpl-1",
    model: "m1",
    choices: [{ finish_reason: "stop", message: {} }],
    usage,
  }),
  responses: (usage) => ({ id: "resp_1", model: "m1", status: "completed", error: null, output: [], usage }),
  messages: (usage) => ({
    id: "msg_1",
    type: "message",
    model: "m1",
    stop_reason: "end_turn",
    content: [],
    usage,
  }),
};

test.for(PROTOCOLS)("%s: a whole answer states it too, whatever its content type says", async (protocol) => {
  const bytes = Buffer.from(` \n${JSON.stringify(WHOLE[protocol](STATED[protocol]))}`);
  for (const contentType of ["application/json; charset=utf-8", null, "text/plain"]) {
    const reading = await readIn(protocol, [bytes.subarray(0, 1), bytes.subarray(1, 9), bytes.subarray(9)], {
      contentType,
    });
    expect(reading).toMatchObject({
      usage: KNOWN,
      isTerminal: true,
      isError: false,
      providerId: ANSWER_IDS[protocol],
    });
  }
  const without = await readIn(protocol, [Buffer.from(JSON.stringify(WHOLE[protocol](undefined)))], {
    contentType: "application/json",
  });
  expect(without).toMatchObject({ usage: UNKNOWN_USAGE, usageObserved: false, isTerminal: true });
  const isStream = await readIn(
    protocol,
    [Buffer.from(stream(protocol, { place: "same", kind: "text", done: true }))],
    {
      contentType: null,
    },
  );
  expect(isStream.usage).toEqual(KNOWN);
});

test.for(PROTOCOLS)(
  "%s: coded bodies are read as plain ones, cut ones as far as they came",
  async (protocol) => {
    const text = Buffer.from(stream(protocol, { place: "same", kind: "tool", done: true }));
    const plain = await readIn(protocol, [text]);
    const coded: Array<[string, Buffer]> = [
      ["gzip", gzipSync(text)],
      ["x-gzip", gzipSync(text)],
      ["deflate", deflateSync(text)],
      ["br", brotliCompressSync(text)],
      ["zstd", zstdCompressSync(text)],
    ];
    for (const [contentCoding, bytes] of coded) {
      const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
      expect(await readIn(protocol, pieces, { contentCoding }), contentCoding).toEqual(plain);
      const cut = await readIn(protocol, pieces.slice(0, 12), { contentCoding });
      expect(cut.usage.state, contentCoding).toBe("unknown");
    }
    const broken = await readIn(protocol, [Buffer.from("no gzip at all")], { contentCoding: "gzip" });
    expect(broken).toMatchObject({ usage: UNKNOWN_USAGE, isWhollyRead: false });
    const foreign = await readIn(protocol, [text], { contentCoding: "compress" });
    expect(foreign).toMatchObject({ usage: UNKNOWN_USAGE, isWhollyRead: false });
  },
);

test("any chunking of any stream, with any line end, gives the same reading", async () => {
  const input = fc.record({
    protocol: fc.constantFrom(...PROTOCOLS),
    shape: fc.constantFrom(...SHAPES),
    lineEnd: fc.constantFrom("\n", "\r\n", "\r"),
    mark: fc.constantFrom("", "\u{feff}"),
    cuts: fc.array(fc.nat(4000), { maxLength: 60 }),
  });
  await fc.assert(
    fc.asyncProperty(input, async ({ protocol, shape, lineEnd, mark, cuts }) => {
      const whole = await readIn(protocol, [Buffer.from(stream(protocol, shape))]);
      const bytes = Buffer.from(mark + stream(protocol, shape).replaceAll("\n", lineEnd));
      expect(await readIn(protocol, cut(bytes, cuts))).toEqual(whole);
    }),
    { numRuns: 300 },
  );
});

test("behind a long text, in pieces of any size, the figures are found as in front of it", async () => {
  const delta: Readonly<Record<ModelProtocol, object>> = {
    "chat-completions": {
      id: "chatcmpl-1",
      model: "m1",
      choices: [{ index: 0, delta: { content: 'the "usage" of it' }, finish_reason: null }],
      usage: null,
    },
    responses: { type: "response.output_text.delta", delta: "response.completed" },
    messages: { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "message_stop" } },
  };
  for (const { protocol, ...shape } of CASES) {
    const [head = "", ...rest] = stream(protocol, shape).split(/(?<=\n\n)/);
    const bytes = Buffer.from(head + frame(delta[protocol]).repeat(200) + rest.join(""));
    const whole = await readIn(protocol, [Buffer.from(stream(protocol, shape))]);
    for (const size of [17, 1000, 4096, bytes.length]) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, (at + 1) * size),
      );
      expect(await readIn(protocol, pieces)).toEqual(whole);
    }
  }
});

test("byte by byte each of the sixty streams reads as it does whole", async () => {
  for (const { protocol, ...shape } of CASES) {
    const bytes = Buffer.from(stream(protocol, shape));
    const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    expect(await readIn(protocol, pieces)).toEqual(await readIn(protocol, [bytes]));
  }
});

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const edges = [0, ...cuts.map((at) => at % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
}

/** Values that look like frames of a protocol and are not. */
const looksLike = fc.oneof(
  fc.json(),
  fc
    .record({
      type: fc.constantFrom("message_start", "message_delta", "response.completed", "error", 7, null),
      message: fc.jsonValue(),
      delta: fc.jsonValue(),
      response: fc.oneof(fc.jsonValue(), fc.record({ usage: fc.jsonValue(), id: fc.string() })),
      choices: fc.oneof(
        fc.jsonValue(),
        fc.array(fc.record({ finish_reason: fc.jsonValue(), usage: fc.jsonValue() })),
      ),
      usage: fc.oneof(
        fc.jsonValue(),
        fc.record({ prompt_tokens: fc.double(), completion_tokens: fc.integer() }),
      ),
      id: fc.oneof(fc.string(), fc.constant(`resp_${"x".repeat(200)}`)),
      model: fc.jsonValue(),
    })
    .map((value) => JSON.stringify(value)),
);

test("garbage is never thrown on, and no figure comes of it that is no count", async () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    looksLike.map((text) => Buffer.from(`data: ${text}\n\n`)),
    looksLike.map((text) => Buffer.from(text)),
  );
  const input = fc.record({
    protocol: fc.constantFrom(...PROTOCOLS),
    contentType: fc.constantFrom("text/event-stream", "application/json", null),
    contentCoding: fc.constantFrom(null, "gzip", "br", "zstd", "deflate", "who knows"),
    pieces: fc.array(piece, { maxLength: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(input, async ({ protocol, contentType, contentCoding, pieces }) => {
      const { usage, ...reading } = await readIn(protocol, pieces, { contentType, contentCoding });
      const { state, ...counters } = usage;
      for (const tokens of Object.values(counters))
        expect(tokens === null || (Number.isSafeInteger(tokens) && tokens >= 0)).toBe(true);
      if (state !== "unknown") expect([usage.inputTokens, usage.outputTokens]).not.toContain(null);
      for (const text of [reading.model, reading.providerId, reading.stopReason])
        expect(text === null || (text.length <= 200 && /^[!-~]+$/.test(text))).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test("an event over the limit is passed over, the next ones are read, and the reading says so", async () => {
  const limits = { eventBytes: 2000, bodyBytes: 2000 };
  const long = frame({ choices: [{ delta: { content: "x".repeat(5000) }, finish_reason: "length" }] });
  const text = long + stream("chat-completions", { place: "after", kind: "text", done: true });
  for (const size of [1, 7, 1999, 100_000]) {
    const bytes = Buffer.from(text);
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    const reading = await readIn("chat-completions", pieces, { limits });
    expect(reading).toMatchObject({ usage: KNOWN, stopReason: "stop", isWhollyRead: false });
  }
  const body = Buffer.from(JSON.stringify({ ...WHOLE.messages(STATED.messages), content: "x".repeat(3000) }));
  expect(await readIn("messages", [body], { limits, contentType: "application/json" })).toMatchObject({
    usage: UNKNOWN_USAGE,
    isWhollyRead: false,
  });
});

test.for(PROTOCOLS)("%s: an answer that is nested without end is no error", async (protocol) => {
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  for (const text of [
    `data: {"usage":${deep},"response":${deep},"message":${deep},"choices":${deep}}\n\n`,
    deep,
  ]) {
    const reading = await readIn(protocol, [Buffer.from(text)], { contentType: null });
    expect(reading.usage).toEqual(UNKNOWN_USAGE);
  }
});

test("an endless line, an endless event and an endless body hold no memory", async () => {
  const chunk = Buffer.alloc(64 * 1024, "x");
  const line = Buffer.concat([Buffer.from("data: "), chunk, Buffer.from("\n")]);
  for (const [contentType, piece] of [
    ["text/event-stream", chunk],
    ["text/event-stream", line],
    ["application/json", Buffer.concat([Buffer.from("{"), chunk])],
  ] as const) {
    globalThis.gc?.();
    const before = process.memoryUsage();
    const reading = await readIn(
      "messages",
      Array.from({ length: 4000 }, () => piece),
      {
        contentType,
        limits: { eventBytes: 256 * 1024, bodyBytes: 256 * 1024 },
      },
    );
    const after = process.memoryUsage();
    expect(reading.isWhollyRead).toBe(false);
    const grown = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
    expect(grown).toBeLessThan(64 * 1024 * 1024);
  }
});
