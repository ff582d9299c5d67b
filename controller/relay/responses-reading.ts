/**
 * OpenAI Responses, read alongside. `response.completed`, `response.incomplete` or `response.failed` ends the answer and
 * states its usage; a bare `error` event is no end of the protocol's, and its figures are not final. Pure.
 */
import { type CallUsage, field, UNKNOWN_USAGE } from "./call-usage.ts";
import { openAiUsage } from "./openai-usage.ts";
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
    const read = openAiUsage(stated, { input: "input", output: "output" });
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
