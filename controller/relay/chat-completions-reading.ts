/**
 * OpenAI Chat Completions, read alongside. The frame with a `finish_reason` ends the answer; its usage is in it or in a
 * frame behind it (`stream_options.include_usage`), with `"usage": null` on all others. Pure.
 */
import { type CallUsage, field, UNKNOWN_USAGE } from "./call-usage.ts";
import { openAiUsage } from "./openai-usage.ts";
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
    const read = openAiUsage(stated, { input: "prompt", output: "completion" });
    if (isTerminal && read.state !== "unknown") usage = read;
  }

  return {
    words: WORDS,
    event: (value) => take(value, false),
    whole: (value) => take(value, true),
    result: () => ({ usage, usageObserved, isTerminal, isError, model, providerId, stopReason }),
  };
}
