/** What becomes of a turn that was admitted and whose end is not known here: one pure decision. */
import type { Result } from "../protocol/methods.ts";

export type RecoveryAnswer = Result<"turn.recover">["state"];

export type RecoveryDecision =
  /** Its events come, or have come. */
  { kind: "wait" } | { kind: "end"; outcome: "not_sent" | "unknown"; what: string; reason: string };

export function decideRecovery(answer: RecoveryAnswer): RecoveryDecision {
  switch (answer) {
    case "active":
    case "ended":
      return { kind: "wait" };
    case "never_received":
      return {
        kind: "end",
        outcome: "not_sent",
        what: "never_received",
        reason: "the bridge never received this turn, and has promised never to take it",
      };
    case "forgotten":
      return {
        kind: "end",
        outcome: "unknown",
        what: "forgotten",
        reason: "the bridge took this turn and no longer knows its end",
      };
    default: {
      const never: never = answer;
      throw new TypeError(`answer ${String(never)} is not handled`);
    }
  }
}

/** What becomes of the open turns when the place where they ran is found in this state. */
export function decideAfterDeath(
  state: "running" | "stopped" | "missing",
  revivals: number,
): "wait" | "revive" | "unknown" {
  if (state === "running") return "wait";
  // The journal is in the writable layer: started again, the bridge itself says how far each turn came.
  if (state === "stopped") return revivals < REVIVALS ? "revive" : "unknown";
  return "unknown";
}

/** Starts in a row without a turn's end in between. Beyond: no restart loop, the turns are unknown. */
export const REVIVALS = 2;
