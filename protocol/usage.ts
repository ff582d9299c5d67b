/** Usage as the CLI states it. Unknown is null, and a null makes a sum null: never a false zero. */
import * as z from "zod/mini";

const Counter = z.nullable(z.number().check(z.nonnegative()));

export const Usage = z.object({
  source: z.enum(["cli", "none"]),
  inputTokens: Counter,
  outputTokens: Counter,
  reasoningTokens: Counter,
  cacheReadTokens: Counter,
  cacheWriteTokens: Counter,
});
export type Usage = z.infer<typeof Usage>;

export const NO_USAGE: Usage = {
  source: "none",
  inputTokens: null,
  outputTokens: null,
  reasoningTokens: null,
  cacheReadTokens: null,
  cacheWriteTokens: null,
};

/** Adds two statements; a counter that one of them lacks is unknown in the sum (law 11). */
export function addUsage(a: Usage, b: Usage): Usage {
  const sum = (x: number | null, y: number | null) => (x === null || y === null ? null : x + y);
  return {
    source: a.source === "none" && b.source === "none" ? "none" : "cli",
    inputTokens: sum(a.inputTokens, b.inputTokens),
    outputTokens: sum(a.outputTokens, b.outputTokens),
    reasoningTokens: sum(a.reasoningTokens, b.reasoningTokens),
    cacheReadTokens: sum(a.cacheReadTokens, b.cacheReadTokens),
    cacheWriteTokens: sum(a.cacheWriteTokens, b.cacheWriteTokens),
  };
}

/** The sum of all; NO_USAGE when there is nothing to add. */
export function sumUsage(statements: readonly Usage[]): Usage {
  const [first, ...rest] = statements;
  return first === undefined ? NO_USAGE : rest.reduce(addUsage, first);
}
