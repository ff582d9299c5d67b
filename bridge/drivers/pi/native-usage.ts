/**
 * Pi's figures of one message in our meaning. Pure. Pi's `input` leaves out what came from a cache, as ours does; its
 * `output` holds the reasoning, which ours leaves out (measured: 56 stated, 6 of them for reasoning, gives `output` 56).
 */
import { NO_USAGE, type Usage } from "../../../protocol/usage.ts";
import type { Message, Tokens } from "./native-message.ts";

/** Null for what is no statement at all: an attempt that failed before the model said anything. */
export function messageUsage({ usage, stopReason, content }: Message): Usage | null {
  const isEmpty = content === undefined || content === null || content.length === 0;
  if (stopReason === "error" && isEmpty && !statesAny(usage)) return null;
  return tokensUsage(usage);
}

export function tokensUsage(tokens: Tokens | undefined): Usage {
  // Without a statement of the provider pi says zero of everything: nothing is known then (law 11).
  if (tokens === undefined || !statesAny(tokens)) return { ...NO_USAGE, source: "cli" };
  const { input, output, cacheRead, cacheWrite, reasoning } = tokens;
  return {
    source: "cli",
    inputTokens: count(input),
    outputTokens: output === undefined ? null : count(output - (reasoning ?? 0)),
    reasoningTokens: count(reasoning),
    cacheReadTokens: count(cacheRead),
    cacheWriteTokens: count(cacheWrite),
  };
}

function statesAny(tokens: Tokens | undefined): boolean {
  return [tokens?.input, tokens?.output, tokens?.cacheRead, tokens?.cacheWrite].some(
    (each) => each !== undefined && each > 0,
  );
}

function count(value: number | undefined): number | null {
  return value === undefined || !Number.isFinite(value) ? null : Math.max(0, value);
}
