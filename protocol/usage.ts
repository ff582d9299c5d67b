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

/** Adds two statements of the same source; a counter that one of them lacks is unknown in the sum. */
export function addUsage(a: Usage, b: Usage): Usage {
  if (a.source === "none") return b;
  if (b.source === "none") return a;
  const sum = (x: number | null, y: number | null) => (x === null || y === null ? null : x + y);
  return {
    source: "cli",
    inputTokens: sum(a.inputTokens, b.inputTokens),
    outputTokens: sum(a.outputTokens, b.outputTokens),
    reasoningTokens: sum(a.reasoningTokens, b.reasoningTokens),
    cacheReadTokens: sum(a.cacheReadTokens, b.cacheReadTokens),
    cacheWriteTokens: sum(a.cacheWriteTokens, b.cacheWriteTokens),
  };
}
