/** Settlements that the host itself gives, where no bridge can: never received, container gone, journal lost. Pure. */
import { clip, type ErrorCode, HoldfastError, toWireError } from "../protocol/errors.ts";
import type { Evidence } from "../protocol/evidence.ts";
import type { ContextStatus, Outcome, Settlement } from "../protocol/settlement.ts";
import { NO_USAGE } from "../protocol/usage.ts";

export function hostSettlement(options: {
  outcome: Extract<Outcome, "not_sent" | "refused" | "unknown">;
  code: ErrorCode;
  reason: string;
  what: string;
  at: number;
  context?: ContextStatus;
}): Settlement {
  const evidence: Evidence = {
    what: options.what,
    source: "host",
    processGeneration: null,
    subscription: null,
    sequence: null,
    at: options.at,
    detail: clip(options.reason),
  };
  return {
    outcome: options.outcome,
    settled: false,
    context: options.context ?? null,
    contextReason: options.context === undefined ? "" : clip(options.reason),
    session: null,
    processGeneration: null,
    parts: [],
    textIsCut: false,
    textIsPartial: options.outcome === "unknown",
    usage: NO_USAGE,
    evidence: [evidence],
    timings: {
      admitMs: null,
      prepareMs: null,
      gateMs: null,
      submitMs: null,
      firstEventMs: null,
      settleMs: null,
      verifyMs: null,
      totalMs: null,
    },
    error: toWireError(new HoldfastError(options.code, options.reason)),
    keepsProcess: false,
  };
}
