/**
 * A fork: a new member whose conversation begins as a copy of another one's, made by the CLI itself and without a prompt.
 *
 *   prepared ─▶ materialized ─▶ ready
 *       └───────────┴─────────▶ failed
 *
 * `prepared`: recorded with the parent's locator; the child's slot may hold a copy of the parent's native state already.
 * A CLI that forks with a turn alone stays here until that turn has settled. `materialized`: the CLI has made the new
 * session and named it; its id is the child's. `ready`: the child's locator is saved. Pure; used on both sides.
 */
import * as z from "zod/mini";
import { HoldfastError } from "./errors.ts";
import { NativeId } from "./ids.ts";
import { TailReference } from "./locator.ts";

export const FORK_STATES = ["prepared", "materialized", "ready", "failed"] as const;
export type ForkState = (typeof FORK_STATES)[number];

export const FORK_MOVES: Readonly<Record<ForkState, readonly ForkState[]>> = {
  prepared: ["materialized", "failed"],
  materialized: ["ready", "failed"],
  ready: [],
  failed: [],
};

/** Throws a typed error that names both when the move is not listed. */
export function checkForkMove(from: ForkState, to: ForkState): void {
  if (!FORK_MOVES[from].includes(to))
    throw new HoldfastError("INTERNAL", `a fork can't go from "${from}" to "${to}"`);
}

/** The session that a CLI made as a fork, as it names it itself. */
export const ForkedSession = z.object({
  nativeId: NativeId,
  directory: z.string().check(z.regex(/^\//), z.maxLength(1024)),
  /** The parent's last settled turn, as the fork's history names it; null when the parent's locator had none. */
  tail: z.nullable(TailReference),
});
export type ForkedSession = z.infer<typeof ForkedSession>;
