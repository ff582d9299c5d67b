/**
 * What to do about places that carry this store's mark, when a controller takes the store over: one pure decision. A
 * crash may have come between the making of a container and its record, or between a removal's record and its effect.
 */
import type { SandboxRow } from "./store/records.ts";

export interface Place {
  sandboxId: string;
  containerId: string;
  /** A bridge has run in it. */
  wasStarted: boolean;
}

export interface Reconciliation {
  /**
   * Ours to remove: its sandbox is removed, or it was made and neither bound nor started, so no turn ever ran in it. One
   * that was started and is not bound has been, by a controller that this store (restored from a backup) knows nothing of.
   */
  remove: Place[];
  /** Not what the store knows: said, and left alone. */
  strange: Place[];
}

export function reconcile(rows: readonly SandboxRow[], places: readonly Place[]): Reconciliation {
  const known = new Map(rows.map((row) => [row.id, row]));
  const result: Reconciliation = { remove: [], strange: [] };
  for (const place of places) {
    const row = known.get(place.sandboxId);
    if (row === undefined) result.strange.push(place);
    else if (row.container === null) (place.wasStarted ? result.strange : result.remove).push(place);
    else if (row.container.containerId !== place.containerId) result.strange.push(place);
    else if (row.wanted === "removed") result.remove.push(place);
  }
  return result;
}
