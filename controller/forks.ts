/**
 * Forks a member: recorded first, then copied and forked in the sandbox, then taken over. Each step is durable before the
 * next, so that the same key goes on from wherever a crash has left it, and never makes a second member.
 *
 *   record (prepared) ─▶ member.fork in the sandbox ─▶ record its session (materialized) ─▶ save its locator (ready)
 *                                    └─▶ a CLI that forks with a turn alone: the copy is there, the first turn does the rest
 */
import { randomUUID } from "node:crypto";
import { decideContext } from "../protocol/context-status.ts";
import { asHoldfastError, type ErrorCode, HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import type { Locator } from "../protocol/locator.ts";
import { launchOf } from "./admission.ts";
import type { Ready } from "./readiness.ts";
import type { Residency } from "./residency.ts";
import type { PinnedBuild } from "./sandboxes/sandbox.ts";
import { forkError } from "./store/forks.ts";
import type { ForkRow, MemberRow } from "./store/records.ts";
import type { Store } from "./store/store.ts";

/** Copying a long history and one start of the CLI. Beyond: LINK_TIMEOUT, and the same key asks again. */
const FORK_MS = 5 * 60_000;

/** What no further try would change. */
const FINAL: ReadonlySet<ErrorCode> = new Set([
  "CLI_UNKNOWN",
  "CONTEXT_LOST",
  "FORK_UNSUPPORTED",
  "IDENTITY_CHANGED",
  "SANDBOX_UNKNOWN",
]);

export interface ForkOptions {
  /** The parent. */
  from: string;
  /** Names this fork: the same key gives the same member, however often and whenever it is asked for. */
  key: string;
  /** Of the new member; made when missing. */
  id?: string;
}

export interface ForkingPorts {
  store: Store;
  /** A fork starts a process of the CLI: it waits in line like a turn. */
  residency: Pick<Residency, "enter" | "left">;
  ready(sandbox: string): Promise<Ready>;
  pinned(sandbox: string): Promise<PinnedBuild>;
}

/** @returns a function with one fork under way a key: a second call gets the first one's result */
export function createForking(ports: ForkingPorts): (options: ForkOptions) => Promise<ForkRow> {
  const { store } = ports;
  const running = new Map<string, Promise<ForkRow>>();

  async function carryOut(fork: ForkRow, parentNumber: number): Promise<void> {
    const child = present(store.member(fork.member));
    const { launch } = launchOf(child, await ports.pinned(child.sandbox));
    const { link, container, outdated } = await ports.ready(child.sandbox);
    if (outdated !== null) throw new HoldfastError("SANDBOX_OUTDATED", outdated);
    const decision = decideContext({
      settledTurns: fork.source.settledTurns,
      locator: fork.source,
      container,
      resident: null,
      mustProve: null,
      launchDigest: launch.digest,
      launchParts: null,
      resume: null,
    });
    if (decision.kind === "decided") throw new HoldfastError("CONTEXT_LOST", decision.reason);
    const { session } = await started(child.id, () =>
      link.request(
        "member.fork",
        { member: child.id, parent: fork.parent, parentNumber, launch, locator: fork.source },
        FORK_MS,
      ),
    );
    store.changeForks(child.id, (forks) =>
      session === null ? forks.copied(child.id) : forks.materialized(child.id, session),
    );
  }

  async function started<T>(member: string, start: () => Promise<T>): Promise<T> {
    const place = `fork of ${member}`;
    await ports.residency.enter(place, member);
    try {
      return await start();
    } finally {
      ports.residency.left(place);
    }
  }

  async function goOn(fork: ForkRow, parentNumber: number): Promise<ForkRow> {
    const now = () => present(store.forkOf(fork.member));
    if (fork.state === "prepared" && !fork.awaits_turn) {
      try {
        await carryOut(fork, parentNumber);
      } catch (error) {
        const fault = asHoldfastError(error);
        if (FINAL.has(fault.code)) store.changeForks(fork.member, (forks) => forks.fail(fork.member, fault));
        throw fault;
      }
    }
    if (now().state === "materialized" && now().session !== null)
      store.changeForks(fork.member, (forks) => forks.ready(fork.member));
    return now();
  }

  return async ({ from, key, id }) => {
    for (const given of [key, id])
      if (given !== undefined && !OurId.safeParse(given).success)
        throw new HoldfastError("REQUEST_INVALID", `${given} can't be a key or an id`);
    const known = running.get(key);
    // Checked against the record all the same: the key may be another fork's.
    if (known !== undefined) {
      const row = await known;
      if (row.parent === from && (id === undefined || id === row.member)) return row;
      throw new HoldfastError("FORK_KEY_USED", `key ${key} is of the fork ${row.member} of ${row.parent}`);
    }
    const fork = store.changeForks(from, (forks) =>
      forks.prepare({ key, parent: from, id }, () => `m-${randomUUID().slice(0, 8)}`),
    );
    if (fork.state === "failed") throw forkError(fork);
    // In the same moment as the record: whatever the parent takes from here on, the bridge sees by its number.
    const going = goOn(fork, present(store.member(from)).submissions).finally(() => running.delete(key));
    running.set(key, going);
    return going;
  };
}

/** What the next turn of a member goes on from: its own locator, or its parent's while its CLI has yet to fork it. */
export function originOf(store: Store, member: MemberRow): { locator: Locator | null; forks: boolean } {
  const own = member.pending_locator ?? member.locator;
  const fork = own === null ? store.forkOf(member.id) : null;
  return fork?.awaits_turn === true ? { locator: fork.source, forks: true } : { locator: own, forks: false };
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("STORE_ERROR", "a record that must be there is not");
  return value;
}
