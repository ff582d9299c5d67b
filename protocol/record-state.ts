/**
 * The states of the host's own record of a turn, and which may follow which.
 *
 *   prepared ─▶ admitted ─▶ delivered ─▶ settled | failed
 *       │           ├──────────────────▶ settled | failed | not_sent | unknown
 *       └─▶ not_sent
 *
 * `admitted` is on disk before the bridge hears of the turn (law 3). `settled` and `failed` say whether the native end
 * was seen; the settlement beside them says the outcome. A record that has ended never changes.
 */
import { HoldfastError } from "./errors.ts";
import type { Settlement } from "./settlement.ts";

export const RECORD_STATES = [
  "prepared",
  "admitted",
  "delivered",
  "settled",
  "failed",
  "not_sent",
  "unknown",
] as const;
export type RecordState = (typeof RECORD_STATES)[number];

export const RECORD_MOVES: Readonly<Record<RecordState, readonly RecordState[]>> = {
  prepared: ["admitted", "not_sent"],
  admitted: ["delivered", "settled", "failed", "not_sent", "unknown"],
  delivered: ["settled", "failed", "not_sent", "unknown"],
  settled: [],
  failed: [],
  not_sent: [],
  unknown: [],
};

/** The record may still move. */
export function isOpen(state: RecordState): boolean {
  return RECORD_MOVES[state].length > 0;
}

/** Throws a typed error that names both when the move is not listed. */
export function checkMove(from: RecordState, to: RecordState): void {
  if (!RECORD_MOVES[from].includes(to)) {
    throw new HoldfastError("INTERNAL", `a turn's record can't go from "${from}" to "${to}"`);
  }
}

/** Where a settlement leaves the record. Refused turns never reached the CLI: they are `not_sent`. */
export function recordStateOf(settlement: Pick<Settlement, "outcome" | "settled">): RecordState {
  if (settlement.outcome === "not_sent" || settlement.outcome === "refused") return "not_sent";
  if (settlement.outcome === "unknown") return "unknown";
  return settlement.settled ? "settled" : "failed";
}
