/**
 * What a controller may still do where several hosts share the store: which sandboxes are its own, whether its host takes new
 * work, and whether its lease is held at all. For a store that one controller has, everything is its own.
 */
import type { Clock } from "../../protocol/clock.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { watchOwnership } from "../ownership.ts";
import type { Store } from "../store/store.ts";
import type { HostState } from "./host-life.ts";

export interface Tenancy {
  /** Throws SANDBOX_ELSEWHERE, which names the host, for a sandbox of another one. */
  checkHome(sandbox: string): void;
  /** Throws HOST_DRAINING. */
  checkTakesWork(): void;
  stop(): void;
}

/** @param options.onLost called once, with FENCED, HOST_ENDED or LEASE_LOST: nothing more is to be driven */
export function watchTenancy(options: {
  store: Store;
  clock: Clock;
  onLost(error: HoldfastError): void;
  onState(state: HostState): void;
}): Tenancy {
  const { store } = options;
  const own = store.hosts?.id ?? null;
  let state: HostState = own === null ? "active" : (store.hosts?.get(own).state ?? "active");
  const stop = watchOwnership({
    ...options,
    first: state,
    onState(found) {
      state = found;
      options.onState(found);
    },
  });
  return {
    stop,
    checkHome(sandbox) {
      const place = store.hosts?.placement(sandbox) ?? null;
      if (place === null) return;
      if (place.released_to !== null)
        throw new HoldfastError(
          "SANDBOX_ELSEWHERE",
          `sandbox ${sandbox} is on its way to host ${place.released_to}`,
        );
      if (place.host !== own)
        throw new HoldfastError("SANDBOX_ELSEWHERE", `sandbox ${sandbox} is on host ${place.host}`);
    },
    checkTakesWork() {
      if (state !== "active") throw new HoldfastError("HOST_DRAINING", `host ${own ?? "?"} is ${state}`);
    },
  };
}
