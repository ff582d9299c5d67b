import fc from "fast-check";
import { Packr } from "msgpackr";
import { expect, test } from "vitest";
import { batches, decode, encode, encodeAll } from "../../protocol/codec.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Frame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { EVENTS, FRAME_OF, PARAMS } from "../support/samples.ts";

/** What a peer with an encoder of its own could send: everything that msgpackr can say. */
const foreign = new Packr({ useRecords: false, moreTypes: true });
const pack = (value: unknown): Uint8Array => foreign.pack(value);

const FRAMES: readonly Frame[] = Object.values(FRAME_OF);

function refusalOf(bytes: Uint8Array): unknown {
  try {
    decode(bytes);
    return "accepted";
  } catch (error) {
    return error instanceof HoldfastError ? error.code : error;
  }
}

for (const frame of FRAMES) {
  test(`a ${frame.kind} frame comes back as it went`, () => {
    expect(decode(encode([frame]))).toEqual([frame]);
  });
}

test("control events of every type come back as they went", () => {
  const frames = Object.values(EVENTS).map(
    (event, at): Frame => ({ kind: "event", entry: { seq: at, at: 1.5, event } }),
  );
  expect(decode(encode(frames))).toEqual(frames);
});

test("a batch keeps its order", () => {
  expect(decode(encode(FRAMES))).toEqual(FRAMES);
  expect(decode(encode([]))).toEqual([]);
});

test("texts come back unit by unit, whatever well-formed Unicode they are", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      const frame: Frame = { kind: "delta", turn: "t", part: "p", offset: 0, text };
      expect(decode(encode([frame]))).toEqual([frame]);
    }),
  );
});

test("numbers come back exactly up to the largest safe one", () => {
  for (const n of [0, 127, 128, 65_536, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
    expect(decode(encode([{ kind: "ack", seq: n }]))).toEqual([{ kind: "ack", seq: n }]);
  }
});

test("a message stands alone: what was encoded stays when more is encoded", () => {
  const first = encode([FRAME_OF.hello]);
  const copy = first.slice();
  for (let n = 0; n < 200; n += 1) encode(FRAMES);
  expect(first).toEqual(copy);
});

test("bytes are read where they lie inside a larger buffer, and not beyond", () => {
  const message = encode(FRAMES);
  const larger = new Uint8Array(message.byteLength + 64).fill(0xc1);
  larger.set(message, 32);
  expect(decode(larger.subarray(32, 32 + message.byteLength))).toEqual(FRAMES);
});

test("every beginning of a message is refused, never half accepted", () => {
  const message = encode(FRAMES);
  for (let length = 0; length < message.byteLength; length += 1) {
    expect(refusalOf(message.subarray(0, length)), `${length} bytes`).toBe("FRAME_INVALID");
  }
});

test("bytes after the message are refused", () => {
  const message = encode([FRAME_OF.ping]);
  for (const extra of [0x00, 0x90, 0xc0, 0xc1]) {
    expect(refusalOf(Uint8Array.from([...message, extra]))).toBe("FRAME_INVALID");
  }
});

test("one bad frame refuses the whole message", () => {
  expect(refusalOf(pack([FRAME_OF.ping, { kind: "ping", n: -1 }, FRAME_OF.pong]))).toBe("FRAME_INVALID");
});

test("random bytes give frames or an error with a code, and nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(["accepted", "FRAME_INVALID", "FRAME_TOO_LARGE"]).toContain(refusalOf(bytes));
    }),
    { numRuns: 5000 },
  );
});

test("a message with random bytes changed gives frames or an error with a code, and nothing else", () => {
  const message = encode(FRAMES);
  const change = fc.tuple(fc.nat(message.byteLength - 1), fc.nat(255));
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
      const bytes = message.slice();
      for (const [at, byte] of changes) bytes[at] = byte;
      expect(["accepted", "FRAME_INVALID", "FRAME_TOO_LARGE"]).toContain(refusalOf(bytes));
    }),
    { numRuns: 5000 },
  );
});

test("after any refused message the next good one is read as before", () => {
  const message = encode(FRAMES);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      refusalOf(bytes);
      expect(decode(message)).toEqual(FRAMES);
    }),
    { numRuns: 500 },
  );
});

// Literal bytes: what an encoder would not write.
const LITERALS: Array<[string, number[]]> = [
  ["nothing at all", []],
  ["the byte that msgpack never uses", [0xc1]],
  ["a list that promises four thousand million entries", [0xdd, 0xff, 0xff, 0xff, 0xff]],
  ["a map that promises as many", [0x91, 0xdf, 0xff, 0xff, 0xff, 0xff]],
  ["a text that promises as many bytes", [0x91, 0xdb, 0xff, 0xff, 0xff, 0xff, 0x61]],
  ["bytes that promise as many", [0x91, 0xc6, 0xff, 0xff, 0xff, 0xff, 0x61]],
  ["an extension of an unknown type", [0x91, 0xd4, 0x01, 0x00]],
  ["a pointer to nothing", [0x91, 0xd6, 0x70, 0, 0, 0, 1]],
  ["a list that holds itself", [0xd6, 0x69, 0, 0, 0, 1, 0x91, 0xd6, 0x70, 0, 0, 0, 1]],
  ["lists a hundred thousand deep", [...Array<number>(100_000).fill(0x91), 0x90]],
];

for (const [name, bytes] of LITERALS) {
  test(`refused: ${name}`, () => {
    expect(refusalOf(Uint8Array.from(bytes))).toBe("FRAME_INVALID");
  });
}

for (const [name, value] of [
  ["nil", null],
  ["a number", 7],
  ["a text", "ping"],
  ["a single frame without its list", FRAME_OF.ping],
  ["a list in a list", [[FRAME_OF.ping]]],
  ["a list of texts", ["ping"]],
  ["an object without a kind", [{ n: 1 }]],
  ["a kind that nobody knows", [{ kind: "pang", n: 1 }]],
  ["a kind that every object has", [{ kind: "constructor" }]],
  ["a kind that is no text", [{ kind: ["ping"], n: 1 }]],
] as const) {
  test(`refused: ${name}`, () => {
    expect(refusalOf(pack(value))).toBe("FRAME_INVALID");
  });
}

test("the refusal names the field, and not its content", () => {
  const hello = { ...FRAME_OF.hello, head: { ...FRAME_OF.hello.head, epoch: "s3cret" } };
  expect(() => decode(pack([hello]))).toThrowError(
    expect.objectContaining({ message: "a frame does not fit its schema at head.epoch" }),
  );
});

test("unknown fields are ignored, also deep inside", () => {
  const entry = { ...FRAME_OF.event.entry, mood: "fine" };
  expect(decode(pack([{ ...FRAME_OF.event, entry, extra: { a: [1] } }]))).toEqual([FRAME_OF.event]);
});

test("keys that reach for a prototype pollute nothing and arrive nowhere", () => {
  const key = (text: string) => [0xa0 | text.length, ...Buffer.from(text)];
  const polluted = [0x81, ...key("polluted"), 0xc3];
  const bytes = Uint8Array.from([
    0x91,
    0x85,
    ...[...key("kind"), ...key("ping")],
    ...[...key("n"), 1],
    ...[...key("__proto__"), ...polluted],
    ...[...key("constructor"), 0x81, ...key("prototype"), ...polluted],
    ...[...key("toString"), 1],
  ]);
  const [frame] = decode(bytes);
  expect(frame).toEqual({ kind: "ping", n: 1 });
  expect(Object.keys(frame ?? {})).toEqual(["kind", "n"]);
  expect("polluted" in {}).toBe(false);
  expect(`${{}}`).toBe("[object Object]");
});

test("a prototype key inside params or an error's details stays harmless", () => {
  const params = JSON.parse('{"turn":"t-1","__proto__":{"polluted":true}}') as unknown;
  const details = JSON.parse('{"__proto__":1,"constructor":2}') as unknown;
  const [request, refuse] = decode(
    pack([
      { ...FRAME_OF.request, params },
      { kind: "refuse", error: { ...FRAME_OF.refuse.error, details } },
    ]),
  );
  expect(request).toMatchObject({ kind: "request" });
  const received = request?.kind === "request" ? request.params : null;
  expect(Object.getPrototypeOf(received)).toBe(Object.prototype);
  expect(Object.getPrototypeOf(refuse?.kind === "refuse" ? refuse.error.details : null)).toBe(
    Object.prototype,
  );
  expect("polluted" in {}).toBe(false);
});

for (const [name, value] of [
  ["a date", new Date(0)],
  ["a map in a set", new Set([new Map([["a", 1]])])],
  ["bytes", Uint8Array.of(1, 2)],
  ["a typed array", Float64Array.of(1)],
  ["a regular expression", /a/],
  ["an error", new Error("a")],
  ["a large whole number", 2n ** 70n],
] as const) {
  test(`${name} is no plain value and is refused wherever it stands`, () => {
    expect(refusalOf(pack([value]))).toBe("FRAME_INVALID");
    expect(refusalOf(pack([{ kind: "ping", n: value }]))).toBe("FRAME_INVALID");
    expect(refusalOf(pack([{ ...FRAME_OF.delta, text: value }]))).toBe("FRAME_INVALID");
    expect(refusalOf(pack([{ ...FRAME_OF.refuse, error: value }]))).toBe("FRAME_INVALID");
    const details = { ...FRAME_OF.refuse.error, details: { a: value } };
    expect(refusalOf(pack([{ ...FRAME_OF.refuse, error: details }]))).toBe("FRAME_INVALID");
    expect(refusalOf(pack([{ ...FRAME_OF.request, params: { a: [{ b: value }] } }]))).toBe("FRAME_INVALID");
    expect(refusalOf(pack([{ ...FRAME_OF.response, result: value }]))).toBe("FRAME_INVALID");
  });
}

test("params that are nested without end are refused", () => {
  let nested: unknown = 1;
  for (let depth = 0; depth < 200; depth += 1) nested = [nested];
  expect(refusalOf(pack([{ ...FRAME_OF.request, params: nested }]))).toBe("FRAME_INVALID");
});

test("a value that is not there travels as nil", () => {
  const [frame] = decode(encode([{ kind: "response", id: 1, result: undefined, error: null }]));
  expect(frame).toEqual({ kind: "response", id: 1, result: null, error: null });
});

test("too many frames are refused on both sides by the same code", () => {
  const pings = (count: number) => Array<Frame>(count).fill(FRAME_OF.ping);
  expect(decode(encode(pings(LIMITS.framesPerMessage)))).toHaveLength(LIMITS.framesPerMessage);
  expect(() => encode(pings(LIMITS.framesPerMessage + 1))).toThrowError(
    expect.objectContaining({ code: "FRAME_TOO_LARGE" }),
  );
  expect(refusalOf(pack(pings(LIMITS.framesPerMessage + 1)))).toBe("FRAME_TOO_LARGE");
});

test("too many bytes are refused before anything is decoded", () => {
  const noise = new Uint8Array(LIMITS.messageBytes + 1).fill(0xc1);
  expect(refusalOf(noise)).toBe("FRAME_TOO_LARGE");
  expect(refusalOf(noise.subarray(1))).toBe("FRAME_INVALID");
});

/** A snapshot of six million bytes: three of them do not fit one message. */
const LARGE: Frame = { ...FRAME_OF.snapshot, text: "€".repeat(LIMITS.outputChars) };

test("too many bytes are not sent in one message", () => {
  expect(() => encode([LARGE, LARGE, LARGE])).toThrowError(
    expect.objectContaining({ code: "FRAME_TOO_LARGE" }),
  );
});

test("frames that do not fit one message are cut into several, in order", () => {
  const frames: Frame[] = [FRAME_OF.ping, LARGE, LARGE, FRAME_OF.pong, LARGE, LARGE, FRAME_OF.ack];
  const messages = encodeAll(frames);
  expect(messages.length).toBeGreaterThan(1);
  for (const message of messages) expect(message.byteLength).toBeLessThanOrEqual(LIMITS.messageBytes);
  expect(messages.flatMap(decode)).toEqual(frames);
});

test("a thousand frames too many are cut by count, and nothing is a message of nothing", () => {
  const frames = Array.from(
    { length: LIMITS.framesPerMessage + 1000 },
    (_, n): Frame => ({ kind: "ping", n }),
  );
  const messages = encodeAll(frames);
  expect(messages).toHaveLength(2);
  expect(messages.flatMap(decode)).toEqual(frames);
  expect(encodeAll([])).toEqual([]);
});

test("a single frame beyond the limit is refused, and none of its batch goes out", () => {
  const text = "€".repeat(LIMITS.messageBytes / 3);
  const huge: Frame = { ...FRAME_OF.request, params: { ...PARAMS["turn.submit"], text } };
  expect(() => encodeAll([FRAME_OF.ping, huge])).toThrowError(
    expect.objectContaining({ code: "FRAME_TOO_LARGE" }),
  );
});

test("batches keep every frame once, in order, and none is longer than asked", () => {
  fc.assert(
    fc.property(fc.nat(40), fc.integer({ min: 1, max: 10 }), (count, size) => {
      const frames = Array.from({ length: count }, (_, n): Frame => ({ kind: "ping", n }));
      const cut = batches(frames, size);
      expect(cut.flat()).toEqual(frames);
      for (const batch of cut) expect(batch.length).toBeGreaterThan(0);
      for (const batch of cut) expect(batch.length).toBeLessThanOrEqual(size);
    }),
  );
});
