/**
 * A host's life, where several share a store. Pure.
 *
 *   active ⇄ draining ─▶ moved_out ─▶ active (its controller opens again)
 *     └─────────┴──────▶ terminated ─▶ active (the same)
 *     any of them ─────▶ removed (for ever)
 *
 * `draining`: takes no new turn and no new sandbox; what runs settles. `moved_out`: every sandbox of it is at rest, with a
 * checkpoint. `terminated`: its controller says that it goes for good. `removed`: somebody else says that it is gone; its
 * controller finds itself fenced. Behind the last three another host may claim its sandboxes.
 */
import { HoldfastError } from "../../protocol/errors.ts";

export const HOST_STATES = ["active", "draining", "moved_out", "terminated", "removed"] as const;
export type HostState = (typeof HOST_STATES)[number];

export const HOST_MOVES: Readonly<Record<HostState, readonly HostState[]>> = {
  active: ["draining", "terminated", "removed"],
  draining: ["active", "moved_out", "terminated", "removed"],
  moved_out: ["active", "removed"],
  terminated: ["active", "removed"],
  removed: [],
};

/** Throws HOST_ENDED for one that is removed, REQUEST_INVALID for any other move that is not listed. */
export function checkHostMove(id: string, from: HostState, to: HostState): void {
  if (HOST_MOVES[from].includes(to)) return;
  if (from === "removed") throw new HoldfastError("HOST_ENDED", `host ${id} was removed`);
  throw new HoldfastError("REQUEST_INVALID", `host ${id} is ${from}: it can't become ${to}`);
}

/** Its sandboxes may be another's: nobody drives them any more. */
export function hasLetGo(state: HostState): boolean {
  return state === "moved_out" || state === "terminated" || state === "removed";
}
