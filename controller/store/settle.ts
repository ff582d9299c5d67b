/**
 * What a settlement does to its member: pure. The bridge's word is checked against what the host holds, so that a
 * changed id fails the turn and leaves the saved locator as it was (law 7).
 */
import { HoldfastError, toWireError } from "../../protocol/errors.ts";
import type { ContainerIdentity, Locator } from "../../protocol/locator.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { MemberRow } from "./records.ts";

export interface SettleResult {
  /** As it is stored and told. */
  settlement: Settlement;
  settledTurns: number;
  /** The locator to save, or null to leave the saved one as it is. */
  locator: Locator | null;
  /** To be saved once its id was verified; replaces an earlier pending one. */
  pending: Locator | null;
}

export function settleMember(options: {
  member: MemberRow;
  container: ContainerIdentity;
  cliVersion: string;
  settlement: Settlement;
  /** Who the native id belongs to by now, or null. */
  ownerOfNativeId: string | null;
}): SettleResult {
  const { member, settlement, container } = options;
  const unchanged = {
    settlement,
    settledTurns: member.settled_turns,
    locator: null,
    pending: member.pending_locator,
  };
  const { session } = settlement;
  if (!settlement.settled || session === null) return unchanged;
  if (settlement.error?.code === "IDENTITY_CHANGED") return unchanged;

  const known = member.pending_locator ?? member.locator;
  if (known !== null && known.nativeId !== session.nativeId) {
    return {
      ...unchanged,
      settlement: refused(
        settlement,
        `the member's session is ${known.nativeId}, the turn ran in ${session.nativeId}`,
      ),
    };
  }
  if (options.ownerOfNativeId !== null && options.ownerOfNativeId !== member.id) {
    return {
      ...unchanged,
      settlement: refused(settlement, `the session ${session.nativeId} belongs to another member`),
    };
  }
  const settledTurns = member.settled_turns + 1;
  const locator: Locator = {
    format: 1,
    cli: member.cli,
    cliVersion: options.cliVersion,
    nativeId: session.nativeId,
    directory: session.directory,
    container,
    settledTurns,
    // A turn that failed before any message leaves the earlier tail the last one.
    tail: session.tail ?? known?.tail ?? null,
  };
  return session.isVerified
    ? { settlement, settledTurns, locator, pending: null }
    : { settlement, settledTurns, locator: null, pending: locator };
}

/** What the CLI states of a turn, as JSON; null for a turn that can't have reached its CLI. */
export function statedUsage({ outcome, usage }: Settlement): string | null {
  return outcome === "not_sent" || outcome === "refused" ? null : JSON.stringify(usage);
}

function refused(settlement: Settlement, why: string): Settlement {
  return { ...settlement, outcome: "failed", error: toWireError(new HoldfastError("IDENTITY_CHANGED", why)) };
}
