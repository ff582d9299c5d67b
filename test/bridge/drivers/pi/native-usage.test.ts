import { expect, test } from "vitest";
import { messageUsage, tokensUsage } from "../../../../bridge/drivers/pi/native-usage.ts";
import { NO_USAGE } from "../../../../protocol/usage.ts";

const UNKNOWN = { ...NO_USAGE, source: "cli" };

test("pi's output holds the reasoning, ours does not; its input leaves out the cached part as ours does", () => {
  expect(tokensUsage({ input: 1000, output: 56, cacheRead: 234, cacheWrite: 0, reasoning: 6 })).toEqual({
    source: "cli",
    inputTokens: 1000,
    outputTokens: 50,
    reasoningTokens: 6,
    cacheReadTokens: 234,
    cacheWriteTokens: 0,
  });
});

test("what is not stated is null and never zero", () => {
  expect(tokensUsage({ input: 10, output: 5 })).toEqual({
    source: "cli",
    inputTokens: 10,
    outputTokens: 5,
    reasoningTokens: null,
    cacheReadTokens: null,
    cacheWriteTokens: null,
  });
});

test("zero of everything is what pi says without a statement: nothing is known", () => {
  const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 };
  expect(tokensUsage(zero)).toEqual(UNKNOWN);
  expect(tokensUsage(undefined)).toEqual(UNKNOWN);
  expect(tokensUsage({ input: Number.NaN, output: 1 })).toMatchObject({ inputTokens: null });
});

test("an attempt that failed before any word is no statement; one that was cut in the middle is an unknown one", () => {
  const failed = { role: "assistant", stopReason: "error", usage: { input: 0, output: 0 } };
  expect(messageUsage({ ...failed, content: [] })).toBeNull();
  expect(messageUsage({ ...failed, content: [{ type: "text", text: "Half" }] })).toEqual(UNKNOWN);
  expect(messageUsage({ ...failed, content: [], usage: { input: 7, output: 0 } })?.inputTokens).toBe(7);
  expect(messageUsage({ ...failed, content: [], stopReason: "aborted" })).toEqual(UNKNOWN);
});
