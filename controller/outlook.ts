/** Gathers what decides a member's next context: from the store, from its sandbox when that can be seen, from the build. */
import { knownLaunch } from "./admission.ts";
import { originOf } from "./forks.ts";
import { type NextContext, type NextContextFacts, nextContext } from "./next-context.ts";
import type { Sight } from "./sandbox-sight.ts";
import type { PinnedBuild } from "./sandboxes/sandbox.ts";
import { forkProblem } from "./store/forks.ts";
import type { MemberRow, SandboxRow } from "./store/records.ts";
import type { Store } from "./store/store.ts";

const REMOVED: Sight = { place: "missing", status: null, why: "the sandbox was removed" };
const UNASKED: Sight = { place: "unknown", status: null, why: "its bridge can't be asked from here" };

/** @param sight null when nobody may be asked: another controller owns the store */
export function outlookOf(options: {
  store: Store;
  member: MemberRow;
  sandbox: SandboxRow;
  sight: Sight | null;
  pinned: PinnedBuild | null;
}): NextContext {
  const { store, member, sandbox, pinned } = options;
  const sight = sandbox.wanted === "removed" ? REMOVED : (options.sight ?? UNASKED);
  const open = store.openTurnsOf(sandbox.id).find((turn) => turn.member === member.id) ?? null;
  return nextContext({
    member: { ...member, locator: member.locator ?? originOf(store, member).locator },
    forkProblem: forkProblem(store.forkOf(member.id)),
    sandbox,
    place: sight.place,
    sight: residentOf(sight, member.id),
    launch: pinned === null ? null : comparable(knownLaunch(member, pinned)),
    otherBuild: pinned === null ? null : otherBuild(sandbox, pinned),
    openTurn: open,
    unknownTurn: store.unknownTurnOf(member.id),
  });
}

function residentOf({ place, status, why }: Sight, member: string): NextContextFacts["sight"] {
  if (status !== null) {
    const found = status.members.find((entry) => entry.member === member);
    return { kind: "seen", resident: found ?? null };
  }
  // What does not run holds no process.
  return place === "stopped" || place === "missing"
    ? { kind: "seen", resident: null }
    : { kind: "unseen", why };
}

function comparable(known: ReturnType<typeof knownLaunch>): NextContextFacts["launch"] {
  return known === null ? null : { digest: known.launch.digest, parts: known.launchParts };
}

/** What attestation would find; it is measured anew before every start. */
function otherBuild({ container }: SandboxRow, pinned: PinnedBuild): string | null {
  if (container === null) return null;
  if (pinned.imageId !== null && pinned.imageId !== container.imageId) return "image";
  return pinned.helperSha256 === container.helperSha256 ? null : "helper";
}
