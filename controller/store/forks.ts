/**
 * Forks in the store: one row a member that was made as one, by the key under which it was asked for. Which state may
 * follow which is `protocol/fork.ts`'s.
 */
import { asHoldfastError, fromWireError, HoldfastError, toWireError } from "../../protocol/errors.ts";
import { checkForkMove, type ForkedSession, type ForkState } from "../../protocol/fork.ts";
import type { Locator } from "../../protocol/locator.ts";
import type { Inspections } from "./inspections.ts";
import type { Members } from "./members.ts";
import { ForkRow, type MemberRow } from "./records.ts";
import type { Database } from "./sqlite.ts";

interface NewFork {
  key: string;
  parent: string;
  /** Of the new member; made when missing. */
  id: string | undefined;
}

/** What is a transaction's is to be called inside of one. */
export interface Forks {
  of(member: string): ForkRow | null;
  /**
   * Records a fork and its member, in the parent's sandbox and with its options; the same again gives the same one. Until
   * its copy is made the fork begins where the parent stands now. Throws FORK_KEY_USED, FORK_EMPTY, FORK_UNFINISHED,
   * MEMBER_UNKNOWN, MEMBER_BUSY, INSPECTION_NEEDED, REQUEST_INVALID.
   */
  prepare(fork: NewFork, makeId: () => string): ForkRow;
  /** The parent's native state is in its slot, and its CLI makes the session with the first turn. */
  copied(member: string): void;
  /** Its CLI has made the session. Throws IDENTITY_CHANGED when that is another member's. */
  materialized(member: string, session: ForkedSession): void;
  /** Its locator is saved, here for a fork that was made at once. */
  ready(member: string): void;
  fail(member: string, error: HoldfastError): void;
  /** A turn of the member has settled, or a locator of it was saved: the fork, if it is one, has come so far. */
  reached(member: string, state: "materialized" | "ready"): void;
  /** Throws FORK_UNFINISHED, FORK_FAILED for a member that can't take a turn. */
  check(member: string): void;
}

export function createForks(options: {
  db: Database;
  nowAt: () => number;
  member(id: string): MemberRow | null;
  members: Members;
  inspections: Inspections;
  claimNativeId(sandbox: string, nativeId: string, member: string): boolean;
  saveLocator(locator: Locator, member: string): void;
  audit(what: string, subject: string, detail: string): void;
}): Forks {
  const { db, nowAt, audit } = options;
  const of = (member: string) => db.row(ForkRow, "SELECT * FROM forks WHERE member = ?", member);
  const check = (member: string) => {
    const problem = forkProblem(of(member));
    if (problem !== null) throw problem;
  };

  function present(member: string): ForkRow {
    const row = of(member);
    if (row === null) throw new HoldfastError("INTERNAL", `member ${member} is no fork`);
    return row;
  }

  function memberOf(id: string): MemberRow {
    const row = options.member(id);
    if (row === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${id}`);
    return row;
  }

  function move(member: string, to: ForkState): void {
    checkForkMove(present(member).state, to);
    db.run("UPDATE forks SET state = ?, updated_at = ? WHERE member = ?", to, nowAt(), member);
    audit("member.fork", member, to);
  }

  /** Where the parent stands, when it may be forked now. */
  function standOf(parent: MemberRow): Locator {
    const { id, settled_turns: settled } = parent;
    const open = options.members.openTurnOf(id);
    if (open !== null) throw new HoldfastError("MEMBER_BUSY", `turn ${open.id} is ${open.state}`);
    options.inspections.check(id);
    check(id);
    const locator = parent.pending_locator ?? parent.locator;
    if (locator !== null) return locator;
    if (settled > 0)
      throw new HoldfastError("FORK_UNFINISHED", `member ${id} has not settled a turn of its own yet`);
    throw new HoldfastError("FORK_EMPTY", `member ${id} has no settled turn`);
  }

  /** Until the copy is made the parent may go on: then the fork begins behind that. */
  function renew(row: ForkRow, parent: MemberRow): ForkRow {
    const source = standOf(parent);
    db.run(
      "UPDATE forks SET source = ?, updated_at = ? WHERE member = ?",
      JSON.stringify(source),
      nowAt(),
      row.member,
    );
    db.run("UPDATE members SET settled_turns = ? WHERE id = ?", source.settledTurns, row.member);
    return present(row.member);
  }

  return {
    of,
    check,
    prepare({ key, parent: parentId, id }, makeId) {
      const known = db.row(ForkRow, "SELECT * FROM forks WHERE key = ?", key);
      if (known !== null) {
        if (known.parent !== parentId || (id !== undefined && id !== known.member))
          throw new HoldfastError(
            "FORK_KEY_USED",
            `key ${key} is of the fork ${known.member} of ${known.parent}`,
          );
        return isBare(known) ? renew(known, memberOf(parentId)) : known;
      }
      const parent = memberOf(parentId);
      const source = standOf(parent);
      const memberId = id ?? makeId();
      const { sandbox, cli, options: given } = parent;
      options.members.add({ id: memberId, sandbox, cli, options: given }, source.settledTurns);
      db.run(
        "INSERT INTO forks VALUES (?, ?, ?, 'prepared', ?, 0, NULL, NULL, ?, ?)",
        memberId,
        key,
        parentId,
        JSON.stringify(source),
        nowAt(),
        nowAt(),
      );
      audit("member.fork", memberId, `prepared from ${parentId}`);
      return present(memberId);
    },
    copied(member) {
      db.run("UPDATE forks SET awaits_turn = 1, updated_at = ? WHERE member = ?", nowAt(), member);
      audit("member.fork", member, "copied");
    },
    materialized(member, session) {
      const { sandbox } = memberOf(member);
      if (!options.claimNativeId(sandbox, session.nativeId, member))
        throw new HoldfastError(
          "IDENTITY_CHANGED",
          `the session ${session.nativeId} belongs to another member`,
        );
      move(member, "materialized");
      db.run("UPDATE forks SET session = ? WHERE member = ?", JSON.stringify(session), member);
    },
    ready(member) {
      const { source, session } = present(member);
      if (session === null) throw new HoldfastError("INTERNAL", `the fork ${member} has no session`);
      // Its state moves with the locator.
      options.saveLocator({ ...source, ...session }, member);
    },
    fail(member, error) {
      move(member, "failed");
      db.run("UPDATE forks SET error = ? WHERE member = ?", JSON.stringify(toWireError(error)), member);
    },
    reached(member, state) {
      const row = of(member);
      if (row === null || row.state === "ready" || row.state === "failed") return;
      if (row.state === "prepared") move(member, "materialized");
      if (state === "ready") move(member, "ready");
    },
  };
}

/** Nothing of it is in the sandbox that anybody has heard of. */
function isBare({ state, awaits_turn }: ForkRow): boolean {
  return state === "prepared" && !awaits_turn;
}

/** Why a member that is such a fork can't take a turn, or null. */
export function forkProblem(fork: ForkRow | null): HoldfastError | null {
  if (fork === null || fork.state === "ready") return null;
  if (fork.state === "failed")
    return new HoldfastError("FORK_FAILED", `the fork of ${fork.parent} failed: ${forkError(fork).message}`);
  // Made with a turn, it takes turns until one has settled, and while that one's id is still to be verified.
  if (fork.awaits_turn) return null;
  return new HoldfastError("FORK_UNFINISHED", `the fork of ${fork.parent} is ${fork.state}, key ${fork.key}`);
}

/** Why a failed one failed. */
export function forkError({ error }: ForkRow): HoldfastError {
  return error === null ? asHoldfastError(new Error("no reason was kept")) : fromWireError(error);
}
