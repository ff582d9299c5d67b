import { expect, test } from "vitest";
import { Cursor, deltaCost, FRAMES, Frame, type FrameKind } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { dispensableFields, NO_COUNTS, NO_IDS, wrongBounds } from "../support/bounds.ts";
import { CURSOR, FRAME_OF } from "../support/samples.ts";

const NO_ERRORS = [{}, { code: "NO_SUCH_CODE", message: "", details: {} }, "FENCED"];
const TEXTS = {
  good: ["", "x".repeat(LIMITS.outputChars)],
  bad: ["x".repeat(LIMITS.outputChars + 1), null, 1],
};
const PARTS = { good: ["p", "x".repeat(256)], bad: ["", "x".repeat(257), null] };

/** Lists, so many inside one another. */
function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
}

const PLAIN = {
  good: [null, true, 0, "", [], {}, { a: [{ b: null }] }, nested(LIMITS.nestedLevels)],
  bad: [new Date(0), new Map(), new Uint8Array(1), { a: [new Date(0)] }, 1n, nested(LIMITS.nestedLevels + 1)],
};

const BOUNDS: Record<FrameKind, Parameters<typeof wrongBounds>[2]> = {
  hello: [
    { at: "pin", good: ["", "x".repeat(512)], bad: ["x".repeat(513), null] },
    { at: "sandboxId", good: ["box"], bad: NO_IDS },
    { at: "token", good: ["x".repeat(16), "x".repeat(256)], bad: ["x".repeat(15), "x".repeat(257), null] },
    { at: "head", bad: [null, {}, 40] },
  ],
  welcome: [
    { at: "fence", good: [0], bad: NO_COUNTS },
    { at: "applied", good: [0], bad: NO_COUNTS },
  ],
  refuse: [{ at: "error", bad: [null, ...NO_ERRORS] }],
  event: [
    { at: "entry", bad: [null, {}] },
    { at: "entry.seq", good: [0], bad: NO_COUNTS },
    { at: "entry.event.type", bad: ["turn.danced"] },
  ],
  ack: [{ at: "seq", good: [0], bad: NO_COUNTS }],
  delta: [
    { at: "turn", good: ["t"], bad: NO_IDS },
    { at: "part", ...PARTS },
    { at: "offset", good: [0], bad: NO_COUNTS },
    { at: "text", ...TEXTS },
  ],
  snapshot: [
    { at: "turn", good: ["t"], bad: NO_IDS },
    { at: "part", ...PARTS },
    { at: "text", ...TEXTS },
  ],
  consumed: [{ at: "bytes", good: [0], bad: NO_COUNTS }],
  request: [
    { at: "id", good: [0], bad: NO_COUNTS },
    { at: "method", good: ["", "x".repeat(64)], bad: ["x".repeat(65), null] },
    { at: "params", ...PLAIN },
  ],
  response: [
    { at: "id", good: [0], bad: NO_COUNTS },
    { at: "result", ...PLAIN },
    { at: "error", good: [null, FRAME_OF.refuse.error], bad: NO_ERRORS },
  ],
  ping: [{ at: "n", good: [0], bad: NO_COUNTS }],
  pong: [{ at: "n", good: [0], bad: NO_COUNTS }],
};

for (const [kind, sample] of Object.entries(FRAME_OF)) {
  test(`a ${kind} frame is accepted as it is, and refused beyond each of its bounds`, () => {
    expect(Frame.parse(sample)).toEqual(sample);
    expect(FRAMES[sample.kind].parse(sample)).toEqual(sample);
    expect(wrongBounds(Frame, sample, BOUNDS[sample.kind])).toEqual([]);
    expect(dispensableFields(Frame, sample)).toEqual([]);
  });
}

test("a frame of an unknown kind is refused, and unknown fields of a known one are ignored", () => {
  for (const kind of ["pang", "", null, "constructor", "__proto__"]) {
    expect(Frame.safeParse({ kind, n: 1 }).success, String(kind)).toBe(false);
  }
  expect(Frame.parse({ ...FRAME_OF.ping, mood: "fine" })).toEqual(FRAME_OF.ping);
});

test("each schema of the table is for the kind under which it stands, and the union knows them all", () => {
  for (const [kind, schema] of Object.entries(FRAMES)) {
    expect(schema.shape.kind.def.values).toEqual([kind]);
    expect(Frame.safeParse(FRAME_OF[kind as FrameKind]).success, kind).toBe(true);
  }
});

test("a cursor names a journal, a life and a place", () => {
  const bounds = [
    { at: "journalId", good: ["j"], bad: NO_IDS },
    { at: "epoch", good: [0], bad: NO_COUNTS },
    { at: "seq", good: [0], bad: NO_COUNTS },
  ];
  expect(wrongBounds(Cursor, CURSOR, bounds)).toEqual([]);
  expect(dispensableFields(Cursor, CURSOR)).toEqual([]);
});

test("what a delta costs of the window depends on its text alone, and an empty one is not free", () => {
  expect(deltaCost({ ...FRAME_OF.delta, text: "" })).toBeGreaterThan(0);
  expect(deltaCost({ ...FRAME_OF.delta, text: "x".repeat(1000) })).toBe(
    deltaCost({ ...FRAME_OF.snapshot, text: "y".repeat(1000) }),
  );
  expect(deltaCost({ ...FRAME_OF.delta, text: "x".repeat(1000) })).toBe(
    deltaCost({ ...FRAME_OF.delta, text: "" }) + 1000,
  );
});
