/**
 * What a turn, a member or a sandbox used, by two witnesses: the relay, which reads what the provider states of each
 * call, and the CLI, which states figures of its own with the turn. Both are kept and neither is corrected; the
 * difference is told, and is unknown where one of them is. From the store alone.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Usage } from "../protocol/usage.ts";
import type { CallSums } from "./relay/call-sums.ts";
import type { Budget } from "./store/budgets.ts";
import type { CallsOf, StatedUsage } from "./store/model-calls.ts";
import type { Store } from "./store/store.ts";

/** The counters that both witnesses have. */
export const SHARED_COUNTERS = [
  "inputTokens",
  "outputTokens",
  "reasoningTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
] as const satisfies ReadonlyArray<keyof Usage>;
type SharedCounter = (typeof SHARED_COUNTERS)[number];

export interface UsageReport {
  /** Of all calls through the relay, those with no turn included. */
  calls: CallSums;
  /** Of those: calls that a CLI made with no turn of ours. No figure of a CLI covers them. */
  unrequested: CallSums;
  /** The CLI's own figures of its turns. A turn that runs has none yet. */
  cli: StatedUsage;
  /** Tokens of the calls in turns that have ended, less those which the CLI states of them; null when one is unknown. */
  difference: Record<SharedCounter, number | null>;
  /** Of the member, or of the turn's member; null for a sandbox, and for a member without one. */
  budget: Budget | null;
}

/** Throws TURN_UNKNOWN, MEMBER_UNKNOWN, SANDBOX_UNKNOWN. */
export function usageReport(
  store: Pick<Store, "turn" | "member" | "sandbox" | "calls">,
  of: CallsOf,
): UsageReport {
  checkThere(store, of);
  const calls = store.calls.sums(of);
  const unrequested = store.calls.sums(of, "unrequested");
  const ended = store.calls.sums(of, "ended");
  const cli = store.calls.stated(of);
  const difference = (name: SharedCounter) => {
    const [relay, own] = [ended.counters[name].tokens, cli.usage[name]];
    return relay === null || own === null ? null : relay - own;
  };
  return {
    calls,
    unrequested,
    cli,
    difference: {
      inputTokens: difference("inputTokens"),
      outputTokens: difference("outputTokens"),
      reasoningTokens: difference("reasoningTokens"),
      cacheReadTokens: difference("cacheReadTokens"),
      cacheWriteTokens: difference("cacheWriteTokens"),
    },
    budget: budgetOf(store, of),
  };
}

function budgetOf(store: Pick<Store, "turn" | "calls">, of: CallsOf): Budget | null {
  if ("sandbox" in of) return null;
  const member = "member" in of ? of.member : store.turn(of.turn)?.member;
  return member === undefined ? null : store.calls.budgets.of(member);
}

function checkThere(store: Pick<Store, "turn" | "member" | "sandbox">, of: CallsOf): void {
  if ("turn" in of) {
    if (store.turn(of.turn) === null) throw new HoldfastError("TURN_UNKNOWN", `no turn ${of.turn}`);
  } else if ("member" in of) {
    if (store.member(of.member) === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${of.member}`);
  } else if (store.sandbox(of.sandbox) === null)
    throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${of.sandbox}`);
}
