import { expect, test } from "vitest";
import {
  CallUsage,
  counter,
  field,
  UNKNOWN_USAGE,
  usageOfWhole,
} from "../../../controller/relay/call-usage.ts";
import { KNOWN } from "./calls.ts";

const STATED = { allInput: 100, allOutput: 20, cacheRead: 60, cacheWrite: 10, reasoning: 5 };

test("a count is a whole number from 0 and nothing else", () => {
  for (const good of [0, 1, Number.MAX_SAFE_INTEGER]) expect(counter(good)).toBe(good);
  for (const bad of [-1, 1.5, Number.NaN, 1e300, "1", null, undefined, true, [1], {}])
    expect(counter(bad)).toBeNull();
});

test("a field is looked up in own fields alone, of whatever it is", () => {
  expect(field({ a: 1 }, "a")).toBe(1);
  for (const value of [null, undefined, 1, "a", [], {}, JSON.parse("{}")]) {
    expect(field(value, "a")).toBeUndefined();
    expect(field(value, "toString")).toBeUndefined();
    expect(field(value, "__proto__")).toBeUndefined();
  }
});

test("parts that are stated apart are taken off the whole", () => {
  expect(usageOfWhole(STATED)).toEqual(KNOWN);
});

test("a part that is not stated is null and takes nothing off; more parts than whole leave 0", () => {
  const plain = usageOfWhole({ ...STATED, cacheRead: null, cacheWrite: null, reasoning: null });
  expect(plain).toMatchObject({ state: "known", inputTokens: 100, outputTokens: 20, cacheReadTokens: null });
  expect(usageOfWhole({ ...STATED, cacheRead: 600, reasoning: 50 })).toMatchObject({
    inputTokens: 0,
    outputTokens: 0,
  });
});

test("without both counters it is unknown as a whole; zeros are known", () => {
  expect(usageOfWhole({ ...STATED, allInput: null })).toEqual(UNKNOWN_USAGE);
  expect(usageOfWhole({ ...STATED, allOutput: null })).toEqual(UNKNOWN_USAGE);
  const zero = usageOfWhole({
    allInput: 0,
    allOutput: 0,
    cacheRead: null,
    cacheWrite: null,
    reasoning: null,
  });
  expect(zero).toMatchObject({ state: "zero", inputTokens: 0, cacheReadTokens: null });
  expect(CallUsage.parse(zero)).toEqual(zero);
});
