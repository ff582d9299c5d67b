/**
 * Usage as OpenAI's two protocols state it: cached tokens are a part of the input, reasoning is a part of the output, and
 * only the names of the two sides differ. Pure.
 */
import { type CallUsage, counter, field, usageOfWhole } from "./call-usage.ts";

export function openAiUsage(
  stated: unknown,
  names: { input: "prompt" | "input"; output: "completion" | "output" },
): CallUsage {
  const input = field(stated, `${names.input}_tokens_details`);
  const output = field(stated, `${names.output}_tokens_details`);
  return usageOfWhole({
    allInput: counter(field(stated, `${names.input}_tokens`)),
    allOutput: counter(field(stated, `${names.output}_tokens`)),
    cacheRead: counter(field(input, "cached_tokens")),
    // Not OpenAI's own: of providers that cache at a price.
    cacheWrite: counter(field(input, "cache_write_tokens")),
    reasoning: counter(field(output, "reasoning_tokens")),
  });
}
