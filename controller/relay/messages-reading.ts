/**
 * Anthropic Messages, read alongside. `message_start` states the input and a first output figure; the `message_delta`
 * with a `stop_reason` ends the answer and states the rest, where a later figure replaces an earlier one. An answer that
 * was cut keeps the input it stated, and its output is unknown. Input figures leave out the cache's. Pure.
 */
import { type CallUsage, counter, field, UNKNOWN_USAGE } from "./call-usage.ts";
import { answerId } from "./provider-id.ts";
import type { ProtocolReading } from "./reading.ts";
import { tellingWords } from "./telling-words.ts";
import { modelName, word } from "./words.ts";

interface Figures {
  input: number | null;
  cacheRead: number | null;
  cacheWrite: number | null;
  output: number | null;
  thinking: number | null;
}

const NONE: Figures = { input: null, cacheRead: null, cacheWrite: null, output: null, thinking: null };

const WORDS = tellingWords(["message_start", "message_delta", "message_stop", "error"]);

export function readMessages(): ProtocolReading {
  let begun: Figures = NONE;
  let final: Figures | null = null;
  let usageObserved = false;
  let isTerminal = false;
  let isError = false;
  let model: string | null = null;
  let providerId: string | null = null;
  let stopReason: string | null = null;

  function name(message: unknown): void {
    providerId ??= answerId(field(message, "id"));
    model ??= modelName(field(message, "model"));
  }

  function end(reason: unknown): void {
    stopReason ??= word(reason);
    isTerminal = true;
  }

  /** Output that is stated before the end is no final figure. */
  function state(stated: unknown): void {
    if (stated == null) return;
    usageObserved = true;
    const read = figuresOf(stated);
    if (isTerminal) final = merged(final ?? { ...begun, output: null, thinking: null }, read);
    else begun = merged(begun, read);
  }

  return {
    words: WORDS,
    event(value) {
      switch (field(value, "type")) {
        case "message_start":
          name(field(value, "message"));
          return state(field(field(value, "message"), "usage"));
        case "message_delta": {
          const reason = field(field(value, "delta"), "stop_reason");
          if (typeof reason === "string") end(reason);
          return state(field(value, "usage"));
        }
        case "message_stop":
          end(null);
          return state(field(value, "usage"));
        case "error":
          isError = true;
          return;
      }
    },
    whole(value) {
      if (field(value, "type") !== "message") {
        isError = field(value, "type") === "error" || field(value, "error") != null;
        return;
      }
      name(value);
      end(field(value, "stop_reason"));
      state(field(value, "usage"));
    },
    result: () => ({
      usage: usageOf(final ?? { ...begun, output: null, thinking: null }),
      usageObserved,
      isTerminal,
      isError,
      model,
      providerId,
      stopReason,
    }),
  };
}

function figuresOf(stated: unknown): Figures {
  return {
    input: counter(field(stated, "input_tokens")),
    cacheRead: counter(field(stated, "cache_read_input_tokens")),
    cacheWrite: counter(field(stated, "cache_creation_input_tokens")),
    output: counter(field(stated, "output_tokens")),
    thinking: counter(field(field(stated, "output_tokens_details"), "thinking_tokens")),
  };
}

function merged(before: Figures, after: Figures): Figures {
  return {
    input: after.input ?? before.input,
    cacheRead: after.cacheRead ?? before.cacheRead,
    cacheWrite: after.cacheWrite ?? before.cacheWrite,
    output: after.output ?? before.output,
    thinking: after.thinking ?? before.thinking,
  };
}

function usageOf({ input, cacheRead, cacheWrite, output, thinking }: Figures): CallUsage {
  if (input === null && output === null) return UNKNOWN_USAGE;
  const all =
    input === null || cacheRead === null || cacheWrite === null ? null : input + cacheRead + cacheWrite;
  const isKnown = input !== null && output !== null;
  const isZero = input === 0 && output === 0 && (cacheRead ?? 0) === 0 && (cacheWrite ?? 0) === 0;
  return {
    state: isKnown ? (isZero ? "zero" : "known") : "unknown",
    inputTokens: input,
    outputTokens: output === null ? null : Math.max(0, output - (thinking ?? 0)),
    reasoningTokens: thinking,
    cacheReadTokens: cacheRead,
    cacheWriteTokens: cacheWrite,
    allInputTokens: all,
    allOutputTokens: output,
  };
}
