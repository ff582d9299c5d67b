/**
 * What becomes of a turn whose end was not seen: one pure decision, for the controller (from its record, the bridge's
 * answer and the state of the sandbox) and for a later life of the bridge (from its journal and the CLI's history).
 *
 *   link up     the bridge's journal decides; for a turn that an earlier life left open it asks the CLI's history
 *   link away   what is seen of the sandbox decides, and a limit
 */

/** How far whoever decides knows that the turn came. */
export type Reach =
  /** Not handed over: this controller holds it and has not sent it. */
  | "unsent"
  /** It may be with the bridge; no byte of it is known to have gone on. */
  | "handed_over"
  /** Bytes of it may be at the CLI. */
  | "submitting"
  /** The CLI took it. */
  | "delivered";

/** The bridge's journal about the turn. */
export type JournalAnswer =
  /** Not there, and vetoed for ever. */
  | "never_received"
  /** It runs, or its end is being found out. */
  | "active"
  /** An earlier life of the bridge left it open. */
  | "interrupted"
  /** Its end is in the journal. */
  | "ended"
  /** It was taken, and nothing more is known. */
  | "forgotten";

/** Where the bridge is. `unusable`: there, and not to be trusted; `unseen`: nobody could look. */
export type Place = "never_made" | "running" | "stopped" | "missing" | "unusable" | "unseen";

/** Whether the CLI has stored the turn's message. */
export type History = "absent" | "present" | "unclear";

export interface RecoveryFacts {
  reach: Reach;
  /** Null while the bridge can't be asked. */
  journal: JournalAnswer | null;
  place: Place;
  /** The sandbox is to run; one that is stopped on purpose is not started for a turn. */
  isWanted: boolean;
  /** Starts in a row without a turn's end in between. */
  revivals: number;
  /** The link has been away for longer than its limit. */
  isOverdue: boolean;
  /** Null while it was not asked. */
  history: History | null;
}

export type RecoveryDecision =
  /** Something that is on its way decides. */
  | { kind: "wait"; reason: string }
  | { kind: "ask_history"; reason: string }
  /** The sandbox is started again, so that its journal can say what became of the turn. */
  | { kind: "revive"; reason: string }
  | { kind: "end"; outcome: "not_sent" | "unknown"; what: string; reason: string };

/** Starts in a row without a turn's end in between. Beyond: no restart loop, the turns are unknown. */
export const REVIVALS = 2;

export function decideRecovery(facts: RecoveryFacts): RecoveryDecision {
  if (facts.reach === "unsent") return wait("nothing of it was sent; whoever sends it ends it");
  return facts.journal === null ? decideAway(facts) : decideByJournal(facts, facts.journal);
}

function decideByJournal(facts: RecoveryFacts, journal: JournalAnswer): RecoveryDecision {
  switch (journal) {
    case "active":
      return wait("the bridge has it, and will tell its end");
    case "ended":
      return wait("its end is on the way");
    case "never_received":
      return notSent(
        "never_received",
        "the bridge never received this turn, and has promised never to take it",
      );
    case "forgotten":
      return unknown("forgotten", "the bridge took this turn and no longer knows its end");
    case "interrupted":
      return decideInterrupted(facts);
    default: {
      const never: never = journal;
      throw new TypeError(`answer ${String(never)} is not handled`);
    }
  }
}

function decideInterrupted({ reach, history }: RecoveryFacts): RecoveryDecision {
  if (reach === "delivered")
    return unknown("bridge_ended_after_delivery", "the bridge ended during the turn; nobody saw its end");
  if (reach !== "submitting") return notSent("bridge_ended", "the bridge ended before anything was sent");
  if (history === null)
    return { kind: "ask_history", reason: "its text was on the way to the CLI: has the CLI stored it?" };
  // The CLIs that can be asked store a message before they ask a model about it (facts, section 15).
  if (history === "absent")
    return notSent("message_absent", "the bridge ended under the submission, and the CLI has not stored it");
  return history === "present"
    ? unknown(
        "message_present",
        "the bridge ended under the submission; the CLI has stored it, nobody saw its end",
      )
    : unknown("bridge_ended", "the bridge ended under the submission; the CLI can't tell whether it took it");
}

function decideAway({ place, isWanted, revivals, isOverdue }: RecoveryFacts): RecoveryDecision {
  switch (place) {
    case "never_made":
      return notSent("never_started", "no bridge was ever started for it");
    case "missing":
      return unknown("sandbox_gone", "the sandbox is missing; nobody saw the turn's end");
    case "unusable":
      return unknown("sandbox_unusable", "the sandbox can't be trusted any more; nobody saw the turn's end");
    case "stopped":
      if (!isWanted) return unknown("sandbox_gone", "the sandbox is stopped; nobody saw the turn's end");
      if (revivals < REVIVALS)
        return { kind: "revive", reason: "the sandbox ended; its journal can say what became of the turn" };
      return unknown(
        "sandbox_gone",
        "the sandbox is stopped, and does not stay up; nobody saw the turn's end",
      );
    case "running":
    case "unseen":
      if (isOverdue)
        return unknown(
          "bridge_silent",
          "the bridge did not connect within its limit; nobody saw the turn's end",
        );
      return wait(place === "running" ? "the bridge may dial again" : "the sandbox could not be looked at");
    default: {
      const never: never = place;
      throw new TypeError(`place ${String(never)} is not handled`);
    }
  }
}

const wait = (reason: string): RecoveryDecision => ({ kind: "wait", reason });
const notSent = (what: string, reason: string): RecoveryDecision => ({
  kind: "end",
  outcome: "not_sent",
  what,
  reason,
});
const unknown = (what: string, reason: string): RecoveryDecision => ({
  kind: "end",
  outcome: "unknown",
  what,
  reason,
});
