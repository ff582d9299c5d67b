/**
 * Notices that what this controller drives is another one's by now: one that was frozen, or that was told to give way, learns
 * it before it is asked for anything, lets go of its links, and so lets the bridges dial its successor. Where several hosts
 * share the store it renews this host's lease, and one that could not be renewed for as long as it was granted is lost too.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { HostState } from "./hosts/host-life.ts";
import { createLeaseClock, RENEW_MS } from "./hosts/lease-clock.ts";
import type { Hosts } from "./store/postgres/hosts.ts";
import type { Store } from "./store/store.ts";

/** Between two looks at the store's fence, where one controller has all of it: one read of one row. */
const LOOK_MS = 2000;

export interface OwnershipOptions {
  store: Pick<Store, "checkOwned"> & { hosts: Pick<Hosts, "renew"> | null };
  clock: Clock;
  /** Called once, with FENCED, HOST_ENDED or LEASE_LOST. */
  onLost(error: HoldfastError): void;
  /** What this host is at the beginning. */
  first: HostState;
  /** What it was found to be at a renewal, when that is another than before. */
  onState(state: HostState): void;
}

/** The result ends the watch. */
export function watchOwnership(options: OwnershipOptions): () => void {
  const { store, clock, onLost } = options;
  const { hosts } = store;
  const lease = createLeaseClock(clock);
  // The opening granted the first one, a moment ago.
  lease.renewing()();
  let state = options.first;
  const everyMs = hosts === null ? LOOK_MS : RENEW_MS;
  let cancel = clock.after(everyMs, look);

  function look(): void {
    try {
      if (hosts === null) store.checkOwned();
      else renew(hosts);
    } catch (error) {
      const fault = asHoldfastError(error);
      if (fault.code === "FENCED" || fault.code === "HOST_ENDED") return onLost(fault);
      // A disk that can't be read, or a server that does not answer, says nothing about the owner; time does.
      if (hosts !== null && !lease.isHeld()) {
        const why = `the store did not renew this host's lease in time (${fault.message})`;
        return onLost(new HoldfastError("LEASE_LOST", why));
      }
    }
    cancel = clock.after(everyMs, look);
  }

  function renew(shared: Pick<Hosts, "renew">): void {
    const renewed = lease.renewing();
    const found = shared.renew();
    renewed();
    if (found === state) return;
    state = found;
    options.onState(found);
  }

  return () => cancel();
}
