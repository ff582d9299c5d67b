/**
 * OpenAI Chat Completions, read alongside. The frame with a `finish_reason` ends the answer; its usage is in it or in a
 * frame behind it (`stream_options.include_usage`), with `"usage": null` on all others. Pure.
 */
import { type CallUsage, counter, field, UNKNOWN_USAGE, usageOfWhole } from "./call-usage.ts";
import { answerId } from "./provider-id.ts";
import type { ProtocolReading } from "./reading.ts";
import { tellingWords } from "./telling-words.ts";
import { modelName, word } from "./words.ts";

const WORDS = tellingWords(["finish_reason", "usage", "error"]);

export function readChatCompletions(): ProtocolReading {
  let usage: CallUsage = UNKNOWN_USAGE;
  let usageObserved = false;
  let isTerminal = false;
  let isError = false;
  let model: string | null = null;
  let providerId: string | null = null;
  let stopReason: string | null = null;

  function take(value: unknown, isWhole: boolean): void {
    if (field(value, "error") != null) {
      isError = true;
      return;
    }
    providerId ??= answerId(field(value, "id"));
    model ??= modelName(field(value, "model"));
    const choices = field(value, "choices");
    const [choice] = Array.isArray(choices) ? (choices as unknown[]) : [];
    const finish = field(choice, "finish_reason");
    stopReason ??= word(finish);
    if (typeof finish === "string" || (isWhole && Array.isArray(choices))) isTerminal = true;
    // Some providers state it in the choice.
    const stated = field(value, "usage") ?? field(choice, "usage");
    if (stated == null) return;
    usageObserved = true;
    const read = usageOf(stated);
    if (isTerminal && read.state !== "unknown") usage = read;
  }

  return {
    words: WORDS,
    event: (value) => take(value, false),
    whole: (value) => take(value, true),
    result: () => ({ usage, usageObserved, isTerminal, isError, model, providerId, stopReason }),
  };
}

function usageOf(stated: unknown): CallUsage {
  const input = field(stated, "prompt_tokens_details");
  return usageOfWhole({
    allInput: counter(field(stated, "prompt_tokens")),
    allOutput: counter(field(stated, "completion_tokens")),
    cacheRead: counter(field(input, "cached_tokens")),
    // Not OpenAI's own: of providers that cache at a price.
    cacheWrite: counter(field(input, "cache_write_tokens")),
    reasoning: counter(field(field(stated, "completion_tokens_details"), "reasoning_tokens")),
  });
}
