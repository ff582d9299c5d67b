/**
 * What calls of models add up to. Pure. A counter that one call lacks is unknown in the sum (law 11); beside it stands
 * what the known calls add up to, and how many of those for which figures were due they are.
 */
import * as z from "zod/mini";
import { Count } from "../../protocol/ids.ts";
import { isUsageDue, type ModelCall } from "./model-call.ts";

export const COUNTERS = [
  "inputTokens",
  "outputTokens",
  "reasoningTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "allInputTokens",
  "allOutputTokens",
] as const;
export type CounterName = (typeof COUNTERS)[number];

const Sum = z.object({
  /** Of all calls for which figures were due; null when one of them lacks it. 0 when there was none. */
  tokens: z.nullable(Count),
  /** Of the calls that state it: no less than this was used. */
  knownTokens: Count,
  /** How many calls state it. */
  knownCalls: Count,
});

export const CallSums = z.object({
  /** All calls, whatever became of them. */
  calls: Count,
  /** Of those: figures were due (`isUsageDue`), and were known, zero included. */
  dueCalls: Count,
  knownCalls: Count,
  /** Verdicts over the prefixes of the calls that had one. */
  prefixes: z.object({
    equal: Count,
    tools: Count,
    system: Count,
    parameters: Count,
    history: Count,
    compaction: Count,
    unknown: Count,
  }),
  counters: z.object({
    inputTokens: Sum,
    outputTokens: Sum,
    reasoningTokens: Sum,
    cacheReadTokens: Sum,
    cacheWriteTokens: Sum,
    allInputTokens: Sum,
    allOutputTokens: Sum,
  }),
});
export type CallSums = z.infer<typeof CallSums>;

const NO_PREFIXES: CallSums["prefixes"] = {
  equal: 0,
  tools: 0,
  system: 0,
  parameters: 0,
  history: 0,
  compaction: 0,
  unknown: 0,
};

type SumOf = (name: CounterName) => z.infer<typeof Sum>;

export const NO_CALLS: CallSums = {
  calls: 0,
  dueCalls: 0,
  knownCalls: 0,
  prefixes: NO_PREFIXES,
  counters: countersOf(() => ({ tokens: 0, knownTokens: 0, knownCalls: 0 })),
};

export function sumsOfCall(
  call: Pick<ModelCall, "purpose" | "outcome" | "status" | "usage" | "prefix">,
): CallSums {
  const { usage, prefix } = call;
  const prefixes = prefix === null ? NO_PREFIXES : { ...NO_PREFIXES, [prefix.verdict]: 1 };
  if (!isUsageDue(call)) return { ...NO_CALLS, calls: 1, prefixes };
  return {
    calls: 1,
    dueCalls: 1,
    knownCalls: usage.state === "unknown" ? 0 : 1,
    prefixes,
    counters: countersOf((name) => {
      const tokens = usage[name];
      return { tokens, knownTokens: tokens ?? 0, knownCalls: tokens === null ? 0 : 1 };
    }),
  };
}

export function addSums(a: CallSums, b: CallSums): CallSums {
  const [x, y] = [a.prefixes, b.prefixes];
  return {
    calls: a.calls + b.calls,
    dueCalls: a.dueCalls + b.dueCalls,
    knownCalls: a.knownCalls + b.knownCalls,
    prefixes: {
      equal: x.equal + y.equal,
      tools: x.tools + y.tools,
      system: x.system + y.system,
      parameters: x.parameters + y.parameters,
      history: x.history + y.history,
      compaction: x.compaction + y.compaction,
      unknown: x.unknown + y.unknown,
    },
    counters: countersOf((name) => {
      const [one, other] = [a.counters[name], b.counters[name]];
      return {
        tokens: one.tokens === null || other.tokens === null ? null : one.tokens + other.tokens,
        knownTokens: one.knownTokens + other.knownTokens,
        knownCalls: one.knownCalls + other.knownCalls,
      };
    }),
  };
}

function countersOf(of: SumOf): CallSums["counters"] {
  return {
    inputTokens: of("inputTokens"),
    outputTokens: of("outputTokens"),
    reasoningTokens: of("reasoningTokens"),
    cacheReadTokens: of("cacheReadTokens"),
    cacheWriteTokens: of("cacheWriteTokens"),
    allInputTokens: of("allInputTokens"),
    allOutputTokens: of("allOutputTokens"),
  };
}
