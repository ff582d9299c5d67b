/** Settlements that the host itself gives, where no bridge can: never received, container gone, journal lost. Pure. */
import { type ErrorCode, HoldfastError } from "../protocol/errors.ts";
import {
  type ContextStatus,
  type Outcome,
  type Settlement,
  unseenSettlement,
} from "../protocol/settlement.ts";

export function hostSettlement(options: {
  outcome: Extract<Outcome, "not_sent" | "refused" | "unknown">;
  code: ErrorCode;
  reason: string;
  what: string;
  at: number;
  context?: ContextStatus;
}): Settlement {
  const { outcome, code, reason, what, at, context } = options;
  return unseenSettlement({
    outcome,
    error: new HoldfastError(code, reason),
    evidence: { what, source: "host", at, detail: reason },
    ...(context === undefined ? {} : { context: { status: context, reason } }),
  });
}
