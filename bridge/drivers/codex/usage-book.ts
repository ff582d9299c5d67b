/**
 * What one turn used, from codex's running figures of the main thread. Pure.
 *
 * Each model request is followed by an update with the thread's `total` and the request's `last`. Without a statement of
 * the provider the update repeats both, as it also does behind a stream that was cut and will be tried again; and codex
 * puts estimates of its own into it (a full window, a compaction), whose sum is not that of its parts. Measured.
 */
import { NO_USAGE, sumUsage, type Usage } from "../../../protocol/usage.ts";
import type { TokenUsage } from "./native-message.ts";

export interface UsageBook {
  update(usage: TokenUsage): void;
  /** The request failed: what was repeated behind it was no statement, and none was due. */
  failed(): void;
  sum(): Usage;
}

/** @param before the thread's figures before the turn; null when it has none yet */
export function createUsageBook(before: TokenUsage | null): UsageBook {
  const stated: Usage[] = [];
  let known = before;
  /** Answers without a statement; the last may still turn out to be of a failed request. */
  let isUnstated = false;

  function flush(): void {
    if (isUnstated) stated.push(UNSTATED);
    isUnstated = false;
  }

  return {
    update(usage) {
      const isRepeated = known !== null && isSame(known, usage);
      known = usage;
      if (isEstimate(usage)) return;
      flush();
      if (isRepeated) isUnstated = true;
      else stated.push(inOurWords(usage));
    },
    failed() {
      isUnstated = false;
    },
    sum() {
      flush();
      return sumUsage(stated);
    },
  };
}

/** An answer was there, and nothing is known of it. */
const UNSTATED: Usage = { ...NO_USAGE, source: "cli" };

/** Codex counts cached tokens as input, and reasoning as output; we do not. */
function inOurWords({ last }: TokenUsage): Usage {
  const { cachedInputTokens, cacheWriteInputTokens, reasoningOutputTokens } = last;
  return {
    source: "cli",
    inputTokens: Math.max(0, last.inputTokens - cachedInputTokens - cacheWriteInputTokens),
    outputTokens: Math.max(0, last.outputTokens - reasoningOutputTokens),
    reasoningTokens: reasoningOutputTokens,
    cacheReadTokens: cachedInputTokens,
    cacheWriteTokens: cacheWriteInputTokens,
  };
}

function isEstimate({ last }: TokenUsage): boolean {
  return last.totalTokens !== last.inputTokens + last.outputTokens;
}

function isSame(a: TokenUsage, b: TokenUsage): boolean {
  return JSON.stringify([a.total, a.last]) === JSON.stringify([b.total, b.last]);
}
