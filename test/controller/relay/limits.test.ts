import { expect, test } from "vitest";
import { checkedLimits, RELAY_DEFAULTS } from "../../../controller/relay/limits.ts";

test("what is not given has its default, and the defaults are in their own ranges", () => {
  expect(checkedLimits()).toEqual(RELAY_DEFAULTS);
  expect(checkedLimits({ drainMs: 0 })).toEqual({ ...RELAY_DEFAULTS, drainMs: 0 });
  expect(RELAY_DEFAULTS.drainMs).toBe(1000);
});

test.each([
  ["drainMs", -1],
  ["drainMs", 60_001],
  ["drainMs", 0.5],
  ["idleMs", 0],
  ["totalMs", Number.NaN],
  ["headerBytes", 1],
  ["requestBytes", Number.POSITIVE_INFINITY],
  ["answerBytes", 0],
] as const)("%s can't be %d", (name, value) => {
  expect(() => checkedLimits({ [name]: value })).toThrow(
    expect.objectContaining({ code: "REQUEST_INVALID", message: expect.stringContaining(name) as string }),
  );
});

test("a drain may last from nothing to a minute", () => {
  for (const drainMs of [0, 1, 60_000]) expect(checkedLimits({ drainMs }).drainMs).toBe(drainMs);
});
