import { expect, test } from "vitest";
import { judge, readUsage, turnUsage } from "../../../../bridge/drivers/claude/verdict.ts";
import { known, rowsOf } from "./captured.ts";

type Result = Parameters<typeof judge>[0];
const result = (changes: Partial<Result>): Result => ({
  type: "result",
  subtype: "success",
  is_error: false,
  num_turns: 1,
  terminal_reason: "completed",
  ...changes,
});

// Facts 1.3: none of the three says it alone.
test.each<[string, Partial<Result>, string]>([
  ["an answer", {}, "completed"],
  [
    "a request that failed for good",
    { is_error: true, terminal_reason: "api_error", api_error_status: 529 },
    "failed",
  ],
  ["a history that is too long", { is_error: true, terminal_reason: "prompt_too_long" }, "failed"],
  [
    "an interrupt while streaming",
    { subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_streaming" },
    "aborted",
  ],
  [
    "an interrupt in a tool",
    { subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_tools" },
    "aborted",
  ],
  [
    "an error of the CLI",
    { subtype: "error_during_execution", is_error: true, terminal_reason: null },
    "failed",
  ],
  ["too many turns", { subtype: "error_max_turns", is_error: false }, "failed"],
  ["a success without a turn", { num_turns: 0, terminal_reason: null }, "failed"],
  ["an abort's word without an error", { terminal_reason: "aborted_tools" }, "aborted"],
  ["a limit's word without an error", { terminal_reason: "rapid_refill_breaker" }, "failed"],
  ["a hook's end", { terminal_reason: "hook_stopped" }, "completed"],
  ["a word that nobody knows", { terminal_reason: "news" }, "failed"],
])("C1: %s", (_what, changes, status) => {
  expect(judge(result(changes), true).status).toBe(status);
});

test("a result without a call of the model is never completed", () => {
  expect(judge(result({}), false)).toEqual({
    status: "failed",
    error: { name: "NoModelCall", message: expect.stringContaining("without a call of the model") },
  });
});

test("an error names what it was and what the CLI said, without addresses", () => {
  const { error } = judge(
    result({
      is_error: true,
      terminal_reason: "api_error",
      api_error_status: 503,
      result: "API Error: no answer of http://127.0.0.1:4000/v1/messages or 10.0.0.7:80 (today)",
    }),
    true,
  );
  expect(error).toEqual({
    name: "api_error 503",
    message: "API Error: no answer of [address] or [address] (today)",
  });
  const own = judge(result({ subtype: "error_during_execution", is_error: true, errors: ["a", "b"] }), true);
  expect(own.error).toEqual({ name: "error_during_execution", message: "a; b" });
});

test("the recorded ends are judged as they were", () => {
  const [gaveUp] = rowsOf("maxretries2-exhaust").filter(({ d }) => d.type === "result");
  expect(judge(known(gaveUp?.d ?? {}) as Result, true)).toMatchObject({
    status: "failed",
    error: { name: "api_error 529", message: expect.stringContaining("529") },
  });
  const [unknown] = rowsOf("resume-unknown").filter(({ d }) => d.type === "result");
  expect(judge(known(unknown?.d ?? {}) as Result, false)).toMatchObject({ status: "failed" });
});

const STATED = {
  input_tokens: 1000,
  output_tokens: 56,
  cache_read_input_tokens: 234,
  cache_creation_input_tokens: 0,
};

test("law 11: usage is the CLI's, the cached input apart; zeros of everything, and no statement, say nothing", () => {
  expect(readUsage(STATED)).toEqual({
    source: "cli",
    inputTokens: 1000,
    outputTokens: 56,
    reasoningTokens: null,
    cacheReadTokens: 234,
    cacheWriteTokens: 0,
  });
  const nothing = {
    source: "cli",
    inputTokens: null,
    outputTokens: null,
    reasoningTokens: null,
    cacheReadTokens: null,
    cacheWriteTokens: null,
  };
  expect(readUsage({ input_tokens: 0, output_tokens: 0 })).toEqual(nothing);
  expect(readUsage(null)).toEqual(nothing);
});

test("thinking is taken out of the output where it is stated, and its zero is not taken for a statement", () => {
  expect(readUsage({ ...STATED, output_tokens_details: { thinking_tokens: 6 } })).toMatchObject({
    outputTokens: 50,
    reasoningTokens: 6,
  });
  expect(readUsage({ ...STATED, output_tokens_details: { thinking_tokens: 0 } })).toMatchObject({
    outputTokens: 56,
    reasoningTokens: null,
  });
});

test("a turn's usage adds what its results state and what they leave out", () => {
  expect(turnUsage([STATED, STATED], [])).toMatchObject({ inputTokens: 2000, outputTokens: 112 });
  expect(turnUsage([{ input_tokens: 0, output_tokens: 0 }], [STATED])).toMatchObject({ inputTokens: 1000 });
  expect(turnUsage([], [])).toMatchObject({ inputTokens: null });
});
