/**
 * What one model call used, as its provider states it on the wire. Pure. A counter that was not stated is null, and a
 * statement counts only as a whole: without both input and output it is unknown, never zero (law 11).
 */
import * as z from "zod/mini";

const Counter = z.nullable(z.number().check(z.int(), z.nonnegative()));

/** In tokens. Input without what a cache gave or took, output without reasoning, wherever the provider tells them apart. */
export const CallUsage = z.object({
  /** `zero`: the provider stated zeros. `unknown`: no final statement with both input and output was seen. */
  state: z.enum(["known", "zero", "unknown"]),
  inputTokens: Counter,
  outputTokens: Counter,
  reasoningTokens: Counter,
  cacheReadTokens: Counter,
  cacheWriteTokens: Counter,
  /** All of the input, and all of the output, as stated or as the sum of their stated parts. */
  allInputTokens: Counter,
  allOutputTokens: Counter,
});
export type CallUsage = z.infer<typeof CallUsage>;

export const UNKNOWN_USAGE: CallUsage = {
  state: "unknown",
  inputTokens: null,
  outputTokens: null,
  reasoningTokens: null,
  cacheReadTokens: null,
  cacheWriteTokens: null,
  allInputTokens: null,
  allOutputTokens: null,
};

/** A field that counts tokens; null for anything else than a whole number from 0. */
export function counter(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null;
}

/** A field of something that may be no object at all. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** Of OpenAI's protocols: the whole input and output with the parts of them that are stated apart. */
export function usageOfWhole(stated: {
  allInput: number | null;
  allOutput: number | null;
  cacheRead: number | null;
  cacheWrite: number | null;
  reasoning: number | null;
}): CallUsage {
  const { allInput, allOutput, cacheRead, cacheWrite, reasoning } = stated;
  if (allInput === null || allOutput === null) return UNKNOWN_USAGE;
  return {
    state: allInput === 0 && allOutput === 0 ? "zero" : "known",
    inputTokens: Math.max(0, allInput - (cacheRead ?? 0) - (cacheWrite ?? 0)),
    outputTokens: Math.max(0, allOutput - (reasoning ?? 0)),
    reasoningTokens: reasoning,
    cacheReadTokens: cacheRead,
    cacheWriteTokens: cacheWrite,
    allInputTokens: allInput,
    allOutputTokens: allOutput,
  };
}
