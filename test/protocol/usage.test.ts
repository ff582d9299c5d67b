import { expect, test } from "vitest";
import { addUsage, NO_USAGE, sumUsage, Usage } from "../../protocol/usage.ts";
import { dispensableFields, wrongBounds } from "../support/bounds.ts";
import { USAGE } from "../support/samples.ts";

const COUNTERS = [
  "inputTokens",
  "outputTokens",
  "reasoningTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
] as const;

test("known counters are added one by one", () => {
  const more = { ...USAGE, inputTokens: 7, outputTokens: 0, reasoningTokens: 4, cacheReadTokens: 2 };
  expect(addUsage({ ...USAGE, reasoningTokens: 1 }, more)).toEqual({
    source: "cli",
    inputTokens: 17,
    outputTokens: 5,
    reasoningTokens: 5,
    cacheReadTokens: 2,
    cacheWriteTokens: 6,
  });
});

for (const counter of COUNTERS) {
  test(`an unknown ${counter} makes that sum unknown, from either side, and no other`, () => {
    const known = { ...USAGE, reasoningTokens: 1 };
    const lacking = { ...known, [counter]: null };
    for (const sum of [addUsage(known, lacking), addUsage(lacking, known)]) {
      for (const each of COUNTERS) {
        if (each === counter) expect(sum[each]).toBeNull();
        else expect(sum[each]).toBe(2 * (known[each] ?? Number.NaN));
      }
    }
  });
}

test("an explicit zero is known, and is not the same as unknown", () => {
  expect(addUsage({ ...USAGE, inputTokens: 0 }, { ...USAGE, inputTokens: 0 }).inputTokens).toBe(0);
  expect(addUsage({ ...USAGE, inputTokens: 0 }, { ...USAGE, inputTokens: null }).inputTokens).toBeNull();
});

test("a turn without a statement makes the sum unknown: it never vanishes from it", () => {
  const sum = addUsage(USAGE, NO_USAGE);
  expect(sum.source).toBe("cli");
  for (const counter of COUNTERS) expect(sum[counter]).toBeNull();
  expect(sumUsage([USAGE, NO_USAGE, USAGE])).toEqual(sum);
});

test("a sum of nothing is no statement, and of one it is that one", () => {
  expect(sumUsage([])).toEqual(NO_USAGE);
  expect(sumUsage([USAGE])).toEqual(USAGE);
  expect(addUsage(NO_USAGE, NO_USAGE)).toEqual(NO_USAGE);
});

test("a usage is accepted as it is, and refused beyond each of its bounds", () => {
  const counters = COUNTERS.map((at) => ({
    at,
    good: [0, null, 1.5],
    bad: [-1, Number.NaN, "0", undefined],
  }));
  const bounds = [...counters, { at: "source", good: ["cli", "none"], bad: ["relay", null] }];
  expect(wrongBounds(Usage, USAGE, bounds)).toEqual([]);
  expect(dispensableFields(Usage, USAGE)).toEqual([]);
  expect(Usage.parse(NO_USAGE)).toEqual(NO_USAGE);
});
