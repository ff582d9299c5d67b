/**
 * A whole preflight: so many repetitions of the five calls, one after the other. An interruption ends the call that is under
 * way and settles with what was done; a first call that can't get through ends the run, since every other one would end alike.
 */
import { randomInt } from "node:crypto";
import type { Clock } from "../../protocol/clock.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { realClock } from "../clock.ts";
import { ASK_LIMITS, type AskLimits, ask } from "./ask.ts";
import { CASE_NAMES, type CaseName, casesOf } from "./cases.ts";
import { wireCall } from "./request-body.ts";
import { showWithout } from "./shown-text.ts";
import { type CallReport, isHopeless, judgeCall, judgeRun, type PreflightReport } from "./verdict.ts";

export interface PreflightOptions {
  /** As the provider gives it; usually ends in `/v1`. */
  baseUrl: string;
  protocol: ModelProtocol;
  model: string;
  /** Never shown, also when the other side sends it back. */
  key: string | null;
  proxy: URL | null;
  repetitions: number;
  /** Ends the run; what was done is reported. */
  signal: AbortSignal;
  limits?: Partial<AskLimits>;
  clock?: Clock;
  below?: (limit: number) => number;
  onStart?: (call: { number: number; of: number; name: CaseName }) => void;
  onCall?: (report: CallReport) => void;
}

/** Never rejects: what goes wrong is a failure of its call. */
export async function runPreflight(options: PreflightOptions): Promise<PreflightReport> {
  const { baseUrl, protocol, model, key, proxy, repetitions, signal } = options;
  const { clock = realClock, below = randomInt, onStart, onCall } = options;
  const limits = { ...ASK_LIMITS, ...options.limits };
  const show = showWithout(key);
  const plannedCalls = repetitions * CASE_NAMES.length;
  const run = { url: baseUrl, protocol, model, plannedCalls };
  const calls: CallReport[] = [];
  const told: string[] = [];
  for (let repetition = 1; repetition <= repetitions; repetition += 1) {
    for (const given of casesOf(below)) {
      if (signal.aborted) return judgeRun({ ...run, endedEarly: "interrupted" }, calls);
      onStart?.({ number: calls.length + 1, of: plannedCalls, name: given.name });
      const call = wireCall(protocol, model, given.messages);
      const asked = await ask(call, { baseUrl, protocol, key, proxy, limits, clock, signal });
      const foreign = told.filter((fact) => !given.facts.includes(fact));
      told.push(...given.facts);
      const report = judgeCall({ asked, repetition, given, foreign, show });
      calls.push(report);
      onCall?.(report);
      if (calls.length === 1 && isHopeless(report)) {
        return judgeRun({ ...run, endedEarly: "given_up" }, calls);
      }
    }
  }
  return judgeRun({ ...run, endedEarly: signal.aborted ? "interrupted" : null }, calls);
}
