import { expect, test } from "vitest";
import { ERROR_CATALOGUE } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { METHODS, type MethodName } from "../../protocol/methods.ts";
import { dispensableFields, NO_COUNTS, NO_IDS, NO_NATIVE_IDS, wrongBounds } from "../support/bounds.ts";
import { LAUNCH_PARTS, LOCATOR, PARAMS, REPORT, RESULTS } from "../support/samples.ts";

type Bounds = Parameters<typeof wrongBounds>[2];

const PARAM_BOUNDS: Record<MethodName, Bounds> = {
  "bridge.challenge": [{ at: "nonce", good: ["0".repeat(64)], bad: ["", "A".repeat(64), null] }],
  "bridge.status": [],
  "turn.submit": [
    { at: "turn", good: ["t"], bad: NO_IDS },
    { at: "member", good: ["m"], bad: NO_IDS },
    { at: "number", good: [0], bad: NO_COUNTS },
    {
      at: "text",
      good: [" ", "/clear", "\u0000", "👩‍👩‍👧", "x".repeat(LIMITS.userTextBytes)],
      bad: ["", "x".repeat(LIMITS.userTextBytes + 1), "half a pair \ud83e", "\udd91", null],
    },
    { at: "launch", bad: [null, {}] },
    { at: "locator", good: [null, LOCATOR], bad: [{}, { ...LOCATOR, format: 2 }, undefined] },
    { at: "locatorIsPending", good: [true, false], bad: [null, 0] },
    { at: "launchParts", bad: [null, {}, { ...LAUNCH_PARTS, model: "m1" }] },
    { at: "mustProve", good: [null, "turn t-1 is unknown"], bad: ["", "x".repeat(2001), true] },
    { at: "forks", good: [true, false], bad: [null, 0] },
    { at: "settledTurns", good: [0], bad: NO_COUNTS },
    { at: "container", bad: [null, {}] },
    { at: "limitMs", good: [0], bad: NO_COUNTS },
  ],
  "turn.abort": [{ at: "turn", good: ["t"], bad: NO_IDS }],
  "turn.recover": [
    { at: "turn", good: ["t"], bad: NO_IDS },
    { at: "member", good: ["m"], bad: NO_IDS },
    { at: "number", good: [0], bad: NO_COUNTS },
  ],
  "permission.answer": [
    { at: "turn", good: ["t"], bad: NO_IDS },
    { at: "session", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "request", good: ["per_1"], bad: NO_NATIVE_IDS },
    { at: "reply", good: ["once", "reject"], bad: ["always", null] },
  ],
  "question.answer": [
    { at: "turn", good: ["t"], bad: NO_IDS },
    { at: "session", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "request", good: ["que_1"], bad: NO_NATIVE_IDS },
    {
      at: "answers",
      good: [null, [], [["a", "b"]]],
      bad: [undefined, "red", ["red"], Array(17).fill(["x"]), [Array(65).fill("x")], [["x".repeat(2001)]]],
    },
  ],
  "member.retire": [{ at: "member", good: ["m"], bad: NO_IDS }],
  "member.fork": [
    { at: "member", good: ["m"], bad: NO_IDS },
    { at: "parent", good: ["m"], bad: NO_IDS },
    { at: "parentNumber", good: [0], bad: NO_COUNTS },
    { at: "launch", bad: [null, {}] },
    { at: "locator", good: [LOCATOR], bad: [null, {}, { ...LOCATOR, format: 2 }] },
  ],
};

const RESULT_BOUNDS: Record<MethodName, Bounds> = {
  "bridge.challenge": [{ at: "proof", bad: ["", null] }],
  "bridge.status": [
    { at: "members", good: [[]], bad: [null, [{}]] },
    { at: "members.0.member", bad: NO_IDS },
    { at: "members.0.cli", bad: ["gemini"] },
    { at: "members.0.processGeneration", good: [0], bad: NO_COUNTS },
    { at: "members.0.subscription", good: [0], bad: NO_COUNTS },
    { at: "members.0.activeTurn", good: [null, "t-1"], bad: ["", undefined] },
    { at: "members.0.nativeId", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "members.0.tookLastTurn", good: [true, false], bad: [null, 1] },
    { at: "members.0.launchDigest", bad: ["", null] },
    { at: "members.0.launchParts", bad: [null, {}] },
    { at: "openTurns", good: [[]], bad: [null, [{}]] },
    { at: "openTurns.0.turn", bad: NO_IDS },
    { at: "openTurns.0.member", bad: NO_IDS },
    { at: "openTurns.0.number", good: [0], bad: NO_COUNTS },
    { at: "numbers", good: [[]], bad: [null, [{}]] },
    { at: "numbers.0.member", bad: NO_IDS },
    { at: "numbers.0.number", good: [0], bad: NO_COUNTS },
  ],
  "turn.submit": [],
  "turn.abort": [],
  "turn.recover": [
    { at: "state", good: ["never_received", "active", "ended", "forgotten"], bad: ["maybe", null] },
  ],
  "permission.answer": [],
  "question.answer": [],
  "member.retire": [{ at: "wasResident", good: [true, false], bad: [null, 0] }],
  "member.fork": [
    { at: "session", good: [null], bad: [{}, "ses_2"] },
    { at: "session.nativeId", good: ["ses_2"], bad: NO_NATIVE_IDS },
    { at: "session.directory", good: ["/"], bad: ["workspace", "", null] },
    { at: "session.tail", good: [null, LOCATOR.tail], bad: [{}, undefined] },
  ],
};

for (const name of Object.keys(METHODS) as MethodName[]) {
  test(`${name} takes its params as they are, and none beyond their bounds`, () => {
    const { params } = METHODS[name];
    expect(params.parse(PARAMS[name])).toEqual(PARAMS[name]);
    expect(wrongBounds(params, PARAMS[name], PARAM_BOUNDS[name])).toEqual([]);
    expect(dispensableFields(params, PARAMS[name])).toEqual([]);
    expect(params.safeParse({ ...PARAMS[name], mood: "fine" }).success, "unknown fields").toBe(true);
    for (const bad of [null, undefined, "params", 1]) expect(params.safeParse(bad).success).toBe(false);
  });

  test(`${name} gives its result as it is, and none beyond its bounds`, () => {
    const { result } = METHODS[name];
    expect(result.parse(RESULTS[name])).toEqual(RESULTS[name]);
    expect(wrongBounds(result, RESULTS[name], RESULT_BOUNDS[name])).toEqual([]);
    expect(dispensableFields(result, RESULTS[name])).toEqual([]);
  });

  test(`${name} names only errors of the catalogue, each once and in order`, () => {
    const errors: readonly string[] = METHODS[name].errors;
    expect(errors).toEqual([...new Set(errors)].sort());
    for (const code of errors) expect(Object.keys(ERROR_CATALOGUE)).toContain(code);
  });
}

test("the user's text comes through its schema unit by unit", () => {
  const text = " \t/clear\r\n\u0000 Größe 🦑 \u200b";
  expect(METHODS["turn.submit"].params.parse({ ...PARAMS["turn.submit"], text }).text).toBe(text);
});

test("the answer to a challenge is the helper's whole report", () => {
  expect(METHODS["bridge.challenge"].result.parse(REPORT)).toEqual(REPORT);
});
