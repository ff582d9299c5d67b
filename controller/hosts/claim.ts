/**
 * Whether a host may take over a sandbox of another one (row A8): only behind an orderly end of the first, by the record and
 * never by a clock alone. A host that is merely silent may be running turns. Pure; decided inside the transaction that moves
 * the lease, so of two that race one finds the other's number there.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { type HostState, hasLetGo } from "./host-life.ts";

export interface ClaimFacts {
  sandbox: string;
  /** Who has the lease by the record, and its number. */
  lease: { host: string; fence: number };
  /** The one that the claimant saw when it looked for a checkpoint. */
  seenFence: number;
  holder: {
    state: HostState;
    /** When it let go, epoch ms of the store's clock; null while it has not. */
    endedAt: number | null;
  };
  /** The sandbox was let go of by its host, for this one. */
  releasedTo: string | null;
  claimant: { id: string; state: HostState };
  /** Of the store's clock, epoch ms. */
  nowAt: number;
  /** So long after its host's end a sandbox can be claimed, ms. */
  retainMs: number;
}

/** The refusal, or null when the lease may move. HOST_ALIVE, HOST_ENDED, HOST_DRAINING, LEASE_ENDED, FENCED. */
export function claimProblem(facts: ClaimFacts): HoldfastError | null {
  const { sandbox, lease, holder, claimant, releasedTo } = facts;
  if (claimant.state === "draining")
    return new HoldfastError("HOST_DRAINING", `host ${claimant.id} takes no sandbox`);
  if (claimant.state !== "active")
    return new HoldfastError("HOST_ENDED", `host ${claimant.id} is ${claimant.state}`);
  if (lease.fence !== facts.seenFence)
    return new HoldfastError("FENCED", `sandbox ${sandbox} was taken meanwhile, by host ${lease.host}`);
  if (releasedTo !== null) {
    if (releasedTo === claimant.id) return null;
    return new HoldfastError("FENCED", `sandbox ${sandbox} is on its way to host ${releasedTo}`);
  }
  if (lease.host === claimant.id) return null;
  if (!hasLetGo(holder.state))
    return new HoldfastError(
      "HOST_ALIVE",
      `sandbox ${sandbox} is of host ${lease.host}, which is ${holder.state}`,
    );
  if (holder.endedAt === null || facts.nowAt - holder.endedAt > facts.retainMs)
    return new HoldfastError(
      "LEASE_ENDED",
      `the lease of sandbox ${sandbox} on host ${lease.host} has ended`,
    );
  return null;
}
