/**
 * Turns that an earlier life of this bridge left open. Its death took every process along, or `slots.ts` has ended what
 * was left, so none of them runs: each gets its one end, by what the journal says about how far it came. One that was
 * under submission waits until the CLI's history can be asked: how the CLI is started, only the controller knows.
 */
import type { Clock } from "../protocol/clock.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { ControlEvent } from "../protocol/events.ts";
import type { Launch } from "../protocol/launch.ts";
import { decideRecovery, type History } from "../protocol/recovery.ts";
import { type Settlement, unseenSettlement } from "../protocol/settlement.ts";
import type { Journal } from "./journal.ts";
import type { JournaledTurn } from "./journal-state.ts";

/** Ends all of them that need no question. */
export async function concludeLostTurns(journal: Journal, clock: Clock): Promise<void> {
  for (const turn of [...journal.state.open.values()]) {
    const settlement = lostSettlement(turn, null, clock.nowAt());
    if (settlement !== null) await journal.append(endOf(turn, settlement));
  }
}

/** Null when the CLI's history has to be asked first. */
export function lostSettlement(turn: JournaledTurn, history: History | null, at: number): Settlement | null {
  const decision = decideRecovery({
    reach: turn.wasDelivered ? "delivered" : turn.wasSubmitting ? "submitting" : "handed_over",
    journal: "interrupted",
    place: "running",
    isWanted: true,
    revivals: 0,
    isOverdue: false,
    history,
  });
  if (decision.kind !== "end") return null;
  const { outcome, what, reason } = decision;
  return unseenSettlement({
    outcome,
    error: new HoldfastError(outcome === "unknown" ? "DELIVERY_UNKNOWN" : "BRIDGE_GONE", reason),
    evidence: {
      what,
      source: history === null ? "bridge" : "history",
      at,
      detail: "concluded by the next life of the bridge from its journal",
    },
  });
}

function endOf({ member, turn, number }: JournaledTurn, settlement: Settlement): ControlEvent {
  return { type: "turn.ended", member, turn, number, settlement };
}

export interface InterruptedTurns {
  /** True when an earlier life left this turn open; it is then concluded, and its end comes as an event. */
  conclude(turn: string, launch: Launch | null): boolean;
}

/**
 * Asks the CLI's history about a turn that waits for it, once, and ends the turn.
 * @param options.isRunning the turn belongs to this life
 * @param options.prove asks the CLI, in a process of its own; its limits bound it
 */
export function createInterruptedTurns(options: {
  journal: Journal;
  clock: Clock;
  isRunning(turn: string): boolean;
  prove(turn: JournaledTurn, launch: Launch): Promise<History>;
  /** The end can't be stored. */
  onBroken(error: unknown): void;
}): InterruptedTurns {
  const { journal, clock } = options;
  const concluding = new Set<string>();

  async function historyOf(turn: JournaledTurn, launch: Launch | null): Promise<History> {
    if (launch === null) return "unclear";
    // A CLI that does not start, or does not answer, is no reason to leave the turn open.
    return options.prove(turn, launch).catch(() => "unclear" as const);
  }

  async function end(turn: JournaledTurn, launch: Launch | null): Promise<void> {
    const history = await historyOf(turn, launch);
    const settlement = lostSettlement(turn, history, clock.nowAt());
    if (settlement !== null) await journal.append(endOf(turn, settlement));
  }

  return {
    conclude(id, launch) {
      const turn = journal.state.open.get(id);
      if (turn === undefined || options.isRunning(id)) return false;
      if (concluding.has(id)) return true;
      concluding.add(id);
      end(turn, launch)
        .catch(options.onBroken)
        .finally(() => concluding.delete(id));
      return true;
    },
  };
}
