/**
 * How a turn ended, read from its `result`: `subtype`, `is_error` and `terminal_reason` together, since none of them says
 * it alone (a failed request is a "success" with `is_error`). Pure. Facts: `claude-codex-pi`, 1.3.
 */
import type { NativeStatus } from "../../../protocol/settlement.ts";
import { addUsage, type Usage } from "../../../protocol/usage.ts";
import { withoutAddresses } from "../addresses.ts";
import type { NativeError } from "../driver.ts";
import type { NativeResult, NativeUsage } from "./native-message.ts";

export interface Verdict {
  status: NativeStatus;
  error: NativeError | null;
}

/** What each word of `terminal_reason` means where nothing else says worse; all words of both pinned versions. */
const BY_REASON: Readonly<Record<string, NativeStatus>> = {
  completed: "completed",
  // A hook of the user's own ended the turn: the model has said what it has said.
  stop_hook_prevented: "completed",
  hook_stopped: "completed",
  aborted_streaming: "aborted",
  aborted_tools: "aborted",
  api_error: "failed",
  background_requested: "failed",
  blocking_limit: "failed",
  budget_exhausted: "failed",
  image_error: "failed",
  malformed_tool_use_exhausted: "failed",
  max_turns: "failed",
  model_error: "failed",
  prompt_too_long: "failed",
  rapid_refill_breaker: "failed",
  structured_output_retry_exhausted: "failed",
  tool_deferred: "failed",
  tool_deferred_unavailable: "failed",
  turn_setup_failed: "failed",
};

/** @param wasModelCalled an assistant message of a model, and not of the CLI itself, was seen in the turn */
export function judge(result: NativeResult, wasModelCalled: boolean): Verdict {
  const { subtype, is_error: isError, terminal_reason: reason } = result;
  // A command of the CLI's own gives no reason. A word that is not known is no proof of an answer.
  const status = reason == null ? "completed" : (BY_REASON[reason] ?? "failed");
  if (status === "aborted") return { status, error: null };
  if (isError || subtype !== "success" || status === "failed")
    return { status: "failed", error: errorOf(result) };
  if (result.num_turns > 0 && wasModelCalled) return { status, error: null };
  const message = "the CLI ended the turn without a call of the model";
  return { status: "failed", error: { name: "NoModelCall", message } };
}

function errorOf(result: NativeResult): NativeError {
  const { subtype, terminal_reason: reason, api_error_status: status } = result;
  const name = subtype === "success" ? (reason ?? "error") : subtype;
  const message = result.errors?.join("; ") ?? result.result ?? "";
  return { name: status == null ? name : `${name} ${status}`, message: withoutAddresses(message) };
}

/** Input without what the cache gave or took, output without thinking where that is stated; zeros of everything say nothing. */
export function readUsage(native: NativeUsage | null | undefined): Usage {
  const counts = [
    native?.input_tokens,
    native?.output_tokens,
    native?.cache_read_input_tokens,
    native?.cache_creation_input_tokens,
  ];
  const isStated = counts.some((each) => each != null && each > 0);
  const [input = null, output = null, read = null, write = null] = isStated ? counts : [];
  // Versions that state thinking say 0 when the provider states none: that is not known to be none.
  const thinking = isStated ? native?.output_tokens_details?.thinking_tokens || null : null;
  return {
    source: "cli",
    inputTokens: input,
    outputTokens: output === null || thinking === null ? output : Math.max(0, output - thinking),
    reasoningTokens: thinking,
    cacheReadTokens: read,
    cacheWriteTokens: write,
  };
}

/**
 * The turn's usage: the result's own, and that of the answers which came without streaming, which the result leaves out
 * (measured on 2.1.220). Several results of one turn add up.
 */
export function turnUsage(results: readonly NativeUsage[], unstreamed: readonly NativeUsage[]): Usage {
  const stated = [...results, ...unstreamed].map(readUsage).filter(({ inputTokens }) => inputTokens !== null);
  const [first, ...rest] = stated;
  return first === undefined ? readUsage(null) : rest.reduce(addUsage, first);
}
