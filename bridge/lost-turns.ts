/**
 * Turns that an earlier life of this bridge left open. Its death took every process along, or `slots.ts` has ended what
 * was left, so none of them runs: each gets its one end, by what the journal says about how far it came.
 */
import type { Clock } from "../protocol/clock.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { type Settlement, unseenSettlement } from "../protocol/settlement.ts";
import type { Journal } from "./journal.ts";
import type { JournaledTurn } from "./journal-state.ts";

export async function concludeLostTurns(journal: Journal, clock: Clock): Promise<void> {
  for (const turn of [...journal.state.open.values()]) {
    await journal.append({
      type: "turn.ended",
      member: turn.member,
      turn: turn.turn,
      number: turn.number,
      settlement: lostSettlement(turn, clock.nowAt()),
    });
  }
}

/**
 * Before `submitting` was journaled no byte went out: `not_sent`. After it nobody saw the end: `unknown`; what the
 * native history holds is looked at when the member is next inspected.
 */
export function lostSettlement(turn: JournaledTurn, at: number): Settlement {
  const outcome = turn.wasSubmitting ? "unknown" : "not_sent";
  const error = new HoldfastError(
    turn.wasSubmitting ? "DELIVERY_UNKNOWN" : "BRIDGE_GONE",
    turn.wasSubmitting
      ? "the bridge ended during the turn; nobody saw its end"
      : "the bridge ended before anything was sent",
  );
  return unseenSettlement({
    outcome,
    error,
    evidence: {
      what: turn.wasDelivered ? "bridge_ended_after_delivery" : "bridge_ended",
      source: "bridge",
      at,
      detail: "concluded by the next life of the bridge from its journal",
    },
  });
}
