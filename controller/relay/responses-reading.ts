/**
 * OpenAI Responses, read alongside. `response.completed`, `response.incomplete` or `response.failed` ends the answer and
 * states its usage; a bare `error` event is no end of the protocol's, and its figures are not final. Pure.
 */
import { type CallUsage, counter, field, UNKNOWN_USAGE, usageOfWhole } from "./call-usage.ts";
import { answerId } from "./provider-id.ts";
import type { ProtocolReading } from "./reading.ts";
import { tellingWords } from "./telling-words.ts";
import { modelName, word } from "./words.ts";

const ENDS: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete", "response.failed"]);
const END_STATES: ReadonlySet<unknown> = new Set(["completed", "incomplete", "failed", "cancelled"]);

const WORDS = tellingWords(["response", "error"]);

export function readResponses(): ProtocolReading {
  let usage: CallUsage = UNKNOWN_USAGE;
  let usageObserved = false;
  let isTerminal = false;
  let isError = false;
  let model: string | null = null;
  let providerId: string | null = null;
  let stopReason: string | null = null;

  function take(response: unknown, isEnd: boolean): void {
    providerId ??= answerId(field(response, "id"));
    model ??= modelName(field(response, "model"));
    if (isEnd) {
      isTerminal = true;
      isError ||= field(response, "error") != null;
      const status = field(response, "status");
      stopReason ??= word(field(field(response, "incomplete_details"), "reason")) ?? word(status);
    }
    const stated = field(response, "usage");
    if (stated == null) return;
    usageObserved = true;
    const read = usageOf(stated);
    if (isTerminal && read.state !== "unknown") usage = read;
  }

  return {
    words: WORDS,
    event(value) {
      const type = field(value, "type");
      if (type === "error") isError = true;
      else take(field(value, "response"), ENDS.has(type));
    },
    whole(value) {
      const isEnd = END_STATES.has(field(value, "status"));
      if (!isEnd && field(value, "error") != null) isError = true;
      else take(value, isEnd);
    },
    result: () => ({ usage, usageObserved, isTerminal, isError, model, providerId, stopReason }),
  };
}

function usageOf(stated: unknown): CallUsage {
  const input = field(stated, "input_tokens_details");
  return usageOfWhole({
    allInput: counter(field(stated, "input_tokens")),
    allOutput: counter(field(stated, "output_tokens")),
    cacheRead: counter(field(input, "cached_tokens")),
    cacheWrite: counter(field(input, "cache_write_tokens")),
    reasoning: counter(field(field(stated, "output_tokens_details"), "reasoning_tokens")),
  });
}
