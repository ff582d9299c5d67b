import fc from "fast-check";
import { expect, test } from "vitest";
import { addSums, CallSums, COUNTERS, NO_CALLS, sumsOfCall } from "../../../controller/relay/call-sums.ts";
import { UNKNOWN_USAGE } from "../../../controller/relay/call-usage.ts";
import type { ModelCall } from "../../../controller/relay/model-call.ts";
import { UNKNOWN_CHAIN } from "../../../controller/relay/prefix-verdict.ts";
import { CALL, KNOWN } from "./calls.ts";

const sum = (...calls: Array<Partial<ModelCall>>) =>
  calls.map((changes) => sumsOfCall({ ...CALL, ...changes })).reduce(addSums, NO_CALLS);

test("known calls add up", () => {
  const { calls, dueCalls, knownCalls, counters } = sum({}, {}, {});
  expect({ calls, dueCalls, knownCalls }).toEqual({ calls: 3, dueCalls: 3, knownCalls: 3 });
  expect(counters.inputTokens).toEqual({ tokens: 90, knownTokens: 90, knownCalls: 3 });
  expect(counters.allOutputTokens).toEqual({ tokens: 60, knownTokens: 60, knownCalls: 3 });
});

test("one unknown call makes every sum unknown, for good; what is known stands beside it", () => {
  const { dueCalls, knownCalls, counters } = sum({}, { usage: UNKNOWN_USAGE }, {});
  expect({ dueCalls, knownCalls }).toEqual({ dueCalls: 3, knownCalls: 2 });
  for (const name of COUNTERS) expect(counters[name]).toMatchObject({ tokens: null, knownCalls: 2 });
  expect(counters.inputTokens.knownTokens).toBe(60);
});

test("a counter that one call lacks is unknown alone; its other counters are not", () => {
  const { knownCalls, counters } = sum({}, { usage: { ...KNOWN, cacheWriteTokens: null } });
  expect(knownCalls).toBe(2);
  expect(counters.cacheWriteTokens).toEqual({ tokens: null, knownTokens: 10, knownCalls: 1 });
  expect(counters.cacheReadTokens.tokens).toBe(120);
});

test("an answer that was cut counts its input, and is not known", () => {
  const usage = { ...UNKNOWN_USAGE, inputTokens: 7 };
  const { knownCalls, counters } = sum({ usage });
  expect(knownCalls).toBe(0);
  expect(counters.inputTokens.tokens).toBe(7);
  expect(counters.outputTokens.tokens).toBeNull();
});

test("zeros are known; calls of which no figures are due change no sum", () => {
  const zero = { ...KNOWN, state: "zero", inputTokens: 0, outputTokens: 0 } as const;
  expect(sum({ usage: zero })).toMatchObject({ knownCalls: 1, counters: { inputTokens: { tokens: 0 } } });
  const none = sum({}, { outcome: "refused", usage: UNKNOWN_USAGE }, { status: 429, usage: UNKNOWN_USAGE });
  expect(none).toMatchObject({
    calls: 3,
    dueCalls: 1,
    knownCalls: 1,
    counters: { inputTokens: { tokens: 30 } },
  });
});

test("verdicts over prefixes are counted by their kind", () => {
  const equal = { ...UNKNOWN_CHAIN, verdict: "equal" } as const;
  const { prefixes } = sum({ prefix: equal }, { prefix: equal }, { prefix: UNKNOWN_CHAIN }, { prefix: null });
  expect(prefixes).toMatchObject({ equal: 2, unknown: 1, history: 0 });
});

test("sums are what their schema says, and any order of adding gives the same", () => {
  const counter = fc.option(fc.nat(1000), { nil: null });
  const usage = fc.record({
    state: fc.constantFrom("known", "unknown"),
    inputTokens: counter,
    outputTokens: counter,
    reasoningTokens: counter,
    cacheReadTokens: counter,
    cacheWriteTokens: counter,
    allInputTokens: counter,
    allOutputTokens: counter,
  });
  const call = fc.record({ usage, status: fc.constantFrom(200, 400, 503, null) });
  fc.assert(
    fc.property(fc.array(call, { maxLength: 10 }), (calls) => {
      const all = calls.map((changes) => sumsOfCall({ ...CALL, ...(changes as Partial<ModelCall>) }));
      const left = all.reduce(addSums, NO_CALLS);
      expect(CallSums.parse(left)).toEqual(left);
      expect(all.toReversed().reduce((sums, each) => addSums(each, sums), NO_CALLS)).toEqual(left);
      for (const name of COUNTERS) {
        const isKnown = left.counters[name].knownCalls === left.dueCalls;
        expect(left.counters[name].tokens).toBe(isKnown ? left.counters[name].knownTokens : null);
      }
    }),
    { numRuns: 200 },
  );
});
