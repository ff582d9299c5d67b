/** Decides a turn's context status from facts alone (design, section 5). Pure; used on both sides. */
import { changeReason, type LaunchParts } from "./launch-parts.ts";
import type { ContainerIdentity, Locator } from "./locator.ts";
import type { ContextStatus } from "./settlement.ts";

/** What a process found when it resumed the saved id (law 8). */
export type ResumeResult =
  | { kind: "proven" }
  /** The native state is not there, or not whole. */
  | { kind: "lost"; reason: string }
  /** Timeout, refused login, full disk: an error of its own, never LOST. */
  | { kind: "error"; reason: string };

export interface ContextFacts {
  /** Native turns of this member that have settled so far. */
  settledTurns: number;
  locator: Locator | null;
  /** The container as measured now. */
  container: ContainerIdentity;
  /** The process that is resident for this member, or null. */
  resident: {
    tookLastTurn: boolean;
    launchDigest: string;
    launchParts: LaunchParts;
    nativeId: string | null;
  } | null;
  /** Why a resident process may not go on by itself though it looks right, or null; see `turn.submit`. */
  mustProve: string | null;
  /** The digest that this turn's launch would have. */
  launchDigest: string;
  /** Its parts, for the reason alone; null when they are not known. */
  launchParts: LaunchParts | null;
  /** Null while no resume was tried. */
  resume: ResumeResult | null;
}

export type ContextDecision =
  | { kind: "decided"; status: ContextStatus; reason: string }
  /** A replacement process has to resume the locator first. */
  | { kind: "resume"; reason: string }
  /** A passing reason; the locator is kept and nothing is LOST. */
  | { kind: "error"; reason: string };

const CONTAINER_PARTS = ["sandboxId", "generation", "containerId", "imageId", "helperSha256"] as const;

export function decideContext(facts: ContextFacts): ContextDecision {
  const { locator, resident, resume } = facts;
  if (facts.settledTurns === 0) {
    return { kind: "decided", status: "NEW", reason: "no native turn has settled" };
  }
  if (locator === null) return lost("a retained member has no locator");
  const changed = CONTAINER_PARTS.find((part) => locator.container[part] !== facts.container[part]);
  if (changed !== undefined) return lost(`the container is not the one of the locator (${changed} differs)`);
  if (locator.settledTurns !== facts.settledTurns) {
    return lost(`the locator counts ${locator.settledTurns} settled turns, the record ${facts.settledTurns}`);
  }
  const why = restartReason(facts);
  if (why === null && resident !== null) {
    return { kind: "decided", status: "LIVE", reason: "the resident process took the last turn" };
  }
  const because = why ?? "no process is resident";
  if (resume === null) return { kind: "resume", reason: because };
  if (resume.kind === "lost") return lost(resume.reason);
  if (resume.kind === "error") return { kind: "error", reason: resume.reason };
  return { kind: "decided", status: "RESTORED", reason: because };
}

function lost(reason: string): ContextDecision {
  return { kind: "decided", status: "LOST", reason };
}

/** Why a resident process can't take the turn, or null when it can. */
function restartReason(facts: ContextFacts): string | null {
  const { resident, locator } = facts;
  if (facts.mustProve !== null) return facts.mustProve;
  if (resident === null) return "no process is resident";
  if (resident.launchDigest !== facts.launchDigest)
    return changeReason(resident.launchParts, facts.launchParts ?? resident.launchParts);
  if (!resident.tookLastTurn) return "the resident process did not take the last turn";
  if (locator !== null && resident.nativeId !== locator.nativeId)
    return "the resident process holds another session";
  return null;
}
