import { expect, test } from "vitest";
import {
  asHoldfastError,
  clip,
  ERROR_CATALOGUE,
  type ErrorCode,
  fromWireError,
  HoldfastError,
  storageFault,
  toWireError,
  WireError,
} from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { dispensableFields, wrongBounds } from "../support/bounds.ts";

const CODES = Object.keys(ERROR_CATALOGUE) as ErrorCode[];

test("every code says when it is given and what to do next, each in a sentence", () => {
  for (const code of CODES) {
    expect(code).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
    for (const text of Object.values(ERROR_CATALOGUE[code])) {
      expect(text, code).toMatch(/^[A-Z`].{4,}\.$/);
      expect(text.length, code).toBeLessThan(160);
    }
  }
});

test("the catalogue is sorted, so that a code is found and is there once", () => {
  expect(CODES).toEqual([...CODES].sort());
});

test("an error carries its code, a message, details, a cause and the catalogue's next step", () => {
  const cause = new Error("below");
  const error = new HoldfastError("TURN_UNKNOWN", "no turn t-9", { details: { turn: "t-9" }, cause });
  expect(error).toBeInstanceOf(Error);
  expect(error).toMatchObject({
    name: "HoldfastError",
    code: "TURN_UNKNOWN",
    message: "no turn t-9",
    details: { turn: "t-9" },
    cause,
    next: ERROR_CATALOGUE.TURN_UNKNOWN.next,
  });
});

test("an error without a message says the catalogue's, and has no cause of its own", () => {
  const error = new HoldfastError("STOPPED");
  expect(error.message).toBe(ERROR_CATALOGUE.STOPPED.summary);
  expect(error.details).toEqual({});
  expect("cause" in error).toBe(false);
});

test("an error crosses the wire and comes back with code, message and details", () => {
  for (const code of CODES) {
    const error = new HoldfastError(code, undefined, { details: { n: 1, b: true, s: "x", none: null } });
    const wire = WireError.parse(JSON.parse(JSON.stringify(toWireError(error))));
    expect(fromWireError(wire)).toMatchObject({ code, message: error.message, details: error.details });
  }
});

test("neither the stack nor the cause of an error crosses the wire", () => {
  const cause = new Error("ENOENT: /root/secret");
  const wire = toWireError(new HoldfastError("STORE_ERROR", "no disk", { cause }));
  expect(Object.keys(wire)).toEqual(["code", "message", "details"]);
  expect(JSON.stringify(wire)).not.toMatch(/secret|\.ts|at /);
});

for (const [name, thrown] of [
  ["an ordinary error", new Error("password=hunter2 in /root/secret")],
  ["a programmer's mistake", new TypeError("hunter2")],
  ["a text", "hunter2"],
  ["nothing", undefined],
  ["an object that looks like ours", { code: "FENCED", message: "hunter2", details: { a: "hunter2" } }],
] as const) {
  test(`${name} crosses the wire as INTERNAL, without a word of its own`, () => {
    expect(toWireError(thrown)).toEqual({
      code: "INTERNAL",
      message: ERROR_CATALOGUE.INTERNAL.summary,
      details: {},
    });
  });
}

test("a long message is cut on its way to the wire, and then fits its schema", () => {
  const wire = toWireError(new HoldfastError("INTERNAL", "x".repeat(10_000)));
  expect(wire.message).toHaveLength(LIMITS.reasonChars);
  expect(wire.message.endsWith("…")).toBe(true);
  expect(WireError.safeParse(wire).success).toBe(true);
});

test("a text within the limit is not touched, one beyond it ends in an ellipsis and is as long as the limit", () => {
  expect(clip("abcde", 5)).toBe("abcde");
  expect(clip("abcdef", 5)).toBe("abcd…");
  expect(clip("", 5)).toBe("");
});

test("an error of ours is left as it is, and any other thrown value becomes one that keeps it as cause", () => {
  const ours = new HoldfastError("FENCED");
  expect(asHoldfastError(ours, "STORE_ERROR")).toBe(ours);
  const other = new Error("disk is full");
  const error = asHoldfastError(other, "STORE_ERROR");
  expect(error).toMatchObject({ code: "STORE_ERROR", cause: other });
  expect(error.message).toContain("disk is full");
  expect(asHoldfastError("a text")).toMatchObject({ code: "INTERNAL", cause: "a text" });
  expect(asHoldfastError(new Error("x".repeat(5000))).message.length).toBeLessThan(400);
});

test("an error on the wire is accepted as it is, and refused beyond each of its bounds", () => {
  const sample = { code: "FENCED", message: "fence 6", details: { fence: 6 } };
  const bounds = [
    { at: "code", good: CODES, bad: ["fenced", "NO_SUCH_CODE", "toString", "", null] },
    {
      at: "message",
      good: ["", "x".repeat(LIMITS.reasonChars)],
      bad: ["x".repeat(LIMITS.reasonChars + 1), null],
    },
    { at: "details", good: [{}, { a: null, b: "", c: 0, d: false }], bad: [null, [], { a: {} }, { a: [] }] },
  ];
  expect(wrongBounds(WireError, sample, bounds)).toEqual([]);
  expect(dispensableFields(WireError, sample)).toEqual([]);
});

test("P44: a write that found no room is DISK_FULL, whoever says so, and every other one a fault of the store", () => {
  const full = [{ code: "ENOSPC" }, { code: "EDQUOT" }, { code: "ERR_SQLITE_ERROR", errcode: 13 }];
  for (const cause of full)
    expect(storageFault("x can't be written", cause)).toMatchObject({
      code: "DISK_FULL",
      message: "x can't be written: the disk is full",
      cause,
    });
  for (const cause of [
    { code: "EIO" },
    { code: "ERR_SQLITE_ERROR", errcode: 10 },
    new Error("full"),
    null,
    "x",
  ])
    expect(storageFault("x can't be written", cause)).toMatchObject({ code: "STORE_ERROR", cause });
});
