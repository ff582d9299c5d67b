/**
 * Notices that the store is another controller's by now: one that was frozen, or that was told to give way, learns it
 * before it is asked for anything, lets go of its links, and so lets the bridges dial its successor.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, type HoldfastError } from "../protocol/errors.ts";
import type { Store } from "./store/store.ts";

/** Between two looks at the store's fence: one read of one row. */
const LOOK_MS = 2000;

/** Calls `onLost` once, with FENCED. The result ends the watch. */
export function watchOwnership(
  store: Store,
  clock: Clock,
  onLost: (error: HoldfastError) => void,
): () => void {
  let cancel = clock.after(LOOK_MS, look);

  function look(): void {
    try {
      store.checkOwned();
    } catch (error) {
      const fault = asHoldfastError(error);
      // A disk that can't be read says nothing about the owner.
      if (fault.code === "FENCED") return onLost(fault);
    }
    cancel = clock.after(LOOK_MS, look);
  }

  return () => cancel();
}
