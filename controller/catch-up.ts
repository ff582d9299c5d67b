/**
 * Makes store and bridge one again before the next turn: the store learns which turn numbers were taken, and what the
 * bridge still runs that the store does not (any more) wait for is ended. For a store that was restored from a backup, and
 * for turns that were given up while their bridge was away.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { Result } from "../protocol/methods.ts";
import { isOpen } from "../protocol/record-state.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import type { Store } from "./store/store.ts";

/** How long the end of turns that nobody waits for may take; their CLI's own limits are shorter. */
const ORPHANS_MS = 60_000;
const POLL_MS = 200;

type Status = Result<"bridge.status">;

export interface CatchUpOptions {
  sandboxId: string;
  link: SandboxLink;
  store: Store;
  clock: Clock;
  onWarning(what: string, detail: string): void;
}

/** Throws what the link throws, and OVERLOADED when such a turn does not end. */
export async function catchUp(options: CatchUpOptions): Promise<void> {
  const { link, store, clock } = options;
  let status = await link.request("bridge.status", {});
  const behind = store.learnNumbers(options.sandboxId, status.numbers);
  if (behind.length > 0)
    options.onWarning("the store is older than the sandbox", `turns of ${behind.join(", ")} are not in it`);

  const deadlineMs = clock.monotonicMs() + ORPHANS_MS;
  for (const { turn } of orphans(status, store)) {
    options.onWarning("a turn that nobody waits for is ended", turn);
    await abort(link, turn);
  }
  while (orphans(status, store).length > 0) {
    if (clock.monotonicMs() > deadlineMs)
      throw new HoldfastError("OVERLOADED", "a turn that nobody waits for does not end");
    await new Promise<void>((resolve) => clock.after(POLL_MS, resolve));
    status = await link.request("bridge.status", {});
  }
}

function orphans({ openTurns }: Status, store: Store): Status["openTurns"] {
  return openTurns.filter(({ turn }) => !isOpen(store.turn(turn)?.state ?? "unknown"));
}

async function abort(link: SandboxLink, turn: string): Promise<void> {
  try {
    await link.request("turn.abort", { turn });
  } catch (error) {
    // It ended meanwhile.
    if (asHoldfastError(error).code !== "ABORT_NO_TURN") throw error;
  }
}
