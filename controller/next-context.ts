/**
 * Which context status a member's next turn would have, and why, from what can be known without a prompt. Pure: the
 * status itself is decided by `protocol/context-status.ts`, from the same facts as at the turn, as far as they are known.
 */
import { type ContextFacts, decideContext } from "../protocol/context-status.ts";
import type { ErrorCode, HoldfastError } from "../protocol/errors.ts";
import { changedParts, type LaunchPart, type LaunchParts } from "../protocol/launch-parts.ts";
import type { Locator } from "../protocol/locator.ts";
import type { ContextStatus } from "../protocol/settlement.ts";
import type { SandboxState } from "./sandboxes/sandbox.ts";
import type { MemberRow, SandboxRow, TurnRow } from "./store/records.ts";

/** Which process of the member is resident; unseen when nobody could be asked. */
export type ResidentSight =
  | { kind: "seen"; resident: ContextFacts["resident"] }
  | { kind: "unseen"; why: string };

export interface NextContextFacts {
  member: MemberRow;
  sandbox: SandboxRow;
  /** Where it would run, now; `unknown` when the engine was not asked or did not answer. */
  place: SandboxState | "unknown";
  sight: ResidentSight;
  /** The next turn's launch; null when the pinned build can't be read. */
  launch: { digest: string; parts: LaunchParts } | null;
  /** What differs between this host's build and the one in the container, in a word; null when nothing does. */
  otherBuild: string | null;
  openTurn: TurnRow | null;
  /** An unknown turn that nobody has looked at. */
  unknownTurn: TurnRow | null;
  /** Why the member is a fork that takes no turn yet, or null. */
  forkProblem: HoldfastError | null;
}

export interface NextContext {
  /** Null when it can't be told without a turn; the reason says what is missing. */
  status: ContextStatus | null;
  reason: string;
  /** What must still show for the status to hold, or null: it holds as it is. */
  toProve: string | null;
  /** Why a turn would be refused now, whatever its context. */
  blocked: { code: ErrorCode; detail: string } | null;
  /** Parts of the launch that differ from the resident process's. */
  launchChanges: LaunchPart[];
}

export function nextContext(facts: NextContextFacts): NextContext {
  const { sight, launch } = facts;
  const resident = sight.kind === "seen" ? sight.resident : null;
  return {
    ...judge(facts),
    blocked: blockOf(facts),
    launchChanges:
      resident === null || launch === null ? [] : changedParts(resident.launchParts, launch.parts),
  };
}

type Judgement = Pick<NextContext, "status" | "reason" | "toProve">;

function judge(facts: NextContextFacts): Judgement {
  const { member, sandbox, place, sight, launch } = facts;
  const locator = member.pending_locator ?? member.locator;
  if (member.settled_turns > 0) {
    if (sandbox.container === null) return certain("LOST", "no container was ever made for this sandbox");
    if (place === "missing") return certain("LOST", "the container is gone");
  }
  const decision = decideContext({
    settledTurns: member.settled_turns,
    locator,
    // Without one nothing has settled, and nothing is compared with it.
    container: sandbox.container ?? NO_CONTAINER,
    resident: sight.kind === "seen" ? sight.resident : null,
    mustProve: member.must_prove,
    // Without a launch to compare with, the process that is there counts as fitting; that is said below.
    launchDigest: launch?.digest ?? residentDigest(sight),
    launchParts: launch?.parts ?? null,
    resume: null,
  });
  if (decision.kind === "decided") {
    const isAssumed = decision.status === "LIVE" && launch === null;
    return isAssumed
      ? { ...certain("LIVE", decision.reason), toProve: "the launch is still the resident process's" }
      : certain(decision.status, decision.reason);
  }
  // Neither of the others without a resume having been tried.
  if (decision.kind === "error" || locator === null)
    return { status: null, reason: decision.reason, toProve: null };
  const proof = proofOf(locator);
  if (sight.kind === "unseen" && member.must_prove === null)
    return {
      status: null,
      reason: `${sight.why}: LIVE if its process is still there, else RESTORED`,
      toProve: proof,
    };
  return { status: "RESTORED", reason: decision.reason, toProve: proof };
}

function certain(status: ContextStatus, reason: string): Judgement {
  return { status, reason, toProve: null };
}

function residentDigest(sight: ResidentSight): string {
  return sight.kind === "seen" ? (sight.resident?.launchDigest ?? "") : "";
}

/** Law 8, in words. Without it the turn would be LOST, and nothing sent. */
function proofOf({ nativeId, tail, directory }: Locator): string {
  const where = `session ${nativeId} in ${directory}`;
  return tail === null
    ? `the CLI still has ${where}`
    : `the CLI's history of ${where} still holds the last settled message (${tail.role} ${tail.id})`;
}

function blockOf({
  openTurn,
  unknownTurn,
  place,
  member,
  otherBuild,
  forkProblem,
}: NextContextFacts): NextContext["blocked"] {
  if (openTurn !== null) return { code: "MEMBER_BUSY", detail: `turn ${openTurn.id} is ${openTurn.state}` };
  if (unknownTurn !== null)
    return { code: "INSPECTION_NEEDED", detail: `turn ${unknownTurn.id} is unknown and has no note` };
  if (forkProblem !== null) return { code: forkProblem.code, detail: forkProblem.message };
  if (place === "missing" && member.settled_turns === 0)
    return { code: "CONTEXT_LOST", detail: "the container is gone" };
  if (otherBuild !== null)
    return { code: "ATTESTATION_FAILED", detail: `the sandbox was made with another ${otherBuild}` };
  return null;
}

const NO_CONTAINER = { sandboxId: "", generation: 0, containerId: "", imageId: "", helperSha256: "" };
