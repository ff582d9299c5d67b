/** The store's contract over SQL, whichever engine it is. Rows and steps; what a settlement means is `settle.ts`'s. */
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import type { Locator } from "../../protocol/locator.ts";
import { checkMove, isOpen, recordStateOf } from "../../protocol/record-state.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { hostSettlement } from "../host-settlement.ts";
import { decideFollow } from "./follow.ts";
import { createForks } from "./forks.ts";
import { eventsOf, locatorsOf } from "./histories.ts";
import { createInspections } from "./inspections.ts";
import { noteLaunch, readRevision, readRevisions } from "./launch-revisions.ts";
import { createMembers } from "./members.ts";
import { mayCall, noteBridgeLife, noteCaller } from "./model-callers.ts";
import { createModelCalls } from "./model-calls.ts";
import type { Hosts } from "./postgres/hosts.ts";
import { MemberRow, SandboxRow, TurnRow } from "./records.ts";
import { noteProcess, readResidents, replaceResidents } from "./residents.ts";
import { settleMember, statedUsage } from "./settle.ts";
import type { Database } from "./sqlite.ts";
import type { Applied, Store } from "./store.ts";
import { createUnrequested } from "./unrequested.ts";

export interface StoreSettings {
  nowAt: () => number;
  /** The pinned version of a CLI, for its locators. */
  cliVersion: (cli: string) => string;
}

type EventOf<T extends ControlEvent["type"]> = Extract<ControlEvent, { type: T }>;

/** So far a store that was set back may be behind its sandboxes, in openings or submissions. */
const LEAP = 1_000_000_000;

const TURNS_OF_SANDBOX = `SELECT turns.* FROM turns JOIN members ON members.id = turns.member WHERE members.sandbox = ?`;

export function createStore(db: Database, options: StoreSettings, hosts: Hosts | null): Store {
  const { nowAt } = options;

  const sandbox = (id: string) => db.row(SandboxRow, "SELECT * FROM sandboxes WHERE id = ?", id);
  const member = (id: string) => db.row(MemberRow, "SELECT * FROM members WHERE id = ?", id);
  const turn = (id: string) => db.row(TurnRow, "SELECT * FROM turns WHERE id = ?", id);
  const membersOf = (id: string) =>
    db.rows(MemberRow, "SELECT * FROM members WHERE sandbox = ? ORDER BY rowid", id);
  const openTurnsOf = (id: string) => db.rows(TurnRow, `${TURNS_OF_SANDBOX} AND turns.ended_at IS NULL`, id);

  const unrequested = createUnrequested(db);
  const inspections = createInspections({ db, nowAt, turn, audit });
  const members = createMembers({ db, nowAt, member, audit });
  const forks = createForks({ db, nowAt, members, member, inspections, claimNativeId, saveLocator, audit });

  function audit(what: string, subject: string, detail: string): void {
    db.run("INSERT INTO audit VALUES (?, ?, ?, ?)", nowAt(), what, subject, detail);
  }

  /** Ends a record; false when it had ended before. Inside a transaction. */
  function endRecord(id: string, settlement: Settlement): boolean {
    const row = turn(id);
    if (row === null || !isOpen(row.state)) return false;
    const state = recordStateOf(settlement);
    checkMove(row.state, state);
    db.run(
      "UPDATE turns SET state = ?, settlement = ?, usage = ?, ended_at = ? WHERE id = ?",
      state,
      JSON.stringify(settlement),
      statedUsage(settlement),
      nowAt(),
      id,
    );
    // Whatever the CLI made of it, the host has not seen: a process that goes on by itself may know more.
    if (state === "unknown") mustProve(row.member, `turn ${id} is unknown`);
    return true;
  }

  /** The first reason stays: the later ones would be proven by the same history. */
  function mustProve(memberId: string, reason: string): void {
    db.run("UPDATE members SET must_prove = ? WHERE id = ? AND must_prove IS NULL", reason, memberId);
  }

  function saveLocator(locator: Locator, memberId: string): void {
    const text = JSON.stringify(locator);
    db.run("UPDATE members SET locator = ?, pending_locator = NULL WHERE id = ?", text, memberId);
    db.run("INSERT INTO locator_history VALUES (?, ?, ?, ?)", memberId, locator.settledTurns, text, nowAt());
    forks.reached(memberId, "ready");
  }

  function ownerOfNativeId(sandboxId: string, nativeId: string): string | null {
    const row = db.row(
      z.object({ member: z.string() }),
      "SELECT member FROM native_ids WHERE sandbox = ? AND native_id = ?",
      sandboxId,
      nativeId,
    );
    return row?.member ?? null;
  }

  /** A native id seen in a turn: recorded for the member, or a conflict when it is another's. */
  function claimNativeId(sandboxId: string, nativeId: string, memberId: string): boolean {
    db.run("INSERT INTO native_ids VALUES (?, ?, ?) ON CONFLICT DO NOTHING", sandboxId, nativeId, memberId);
    return ownerOfNativeId(sandboxId, nativeId) === memberId;
  }

  function applyEnded(
    row: SandboxRow,
    turnId: string,
    memberId: string,
    given: Settlement,
    applied: Applied,
  ): void {
    const owner = member(memberId);
    const known = turn(turnId);
    if (owner === null || known === null || row.container === null) {
      throw new HoldfastError("FRAME_INVALID", `the bridge reports a turn that is not its own (${turnId})`);
    }
    if (!isOpen(known.state)) return;
    const nativeId = given.session?.nativeId ?? null;
    const expectedId = (owner.pending_locator ?? owner.locator)?.nativeId ?? nativeId;
    // An id that no context named before is the member's from here on; a changed one is nobody's.
    if (nativeId !== null && nativeId === expectedId && given.error?.code !== "IDENTITY_CHANGED")
      claimNativeId(row.id, nativeId, memberId);
    const result = settleMember({
      member: owner,
      container: row.container,
      cliVersion: options.cliVersion(owner.cli),
      settlement: given,
      ownerOfNativeId: nativeId === null ? null : ownerOfNativeId(row.id, nativeId),
    });
    endRecord(turnId, result.settlement);
    db.run(
      "UPDATE members SET settled_turns = ?, pending_locator = ? WHERE id = ?",
      result.settledTurns,
      result.pending === null ? null : JSON.stringify(result.pending),
      memberId,
    );
    if (result.locator !== null) saveLocator(result.locator, memberId);
    else if (result.pending !== null) forks.reached(memberId, "materialized");
    applied.settled.push({ turn: turnId, settlement: result.settlement });
  }

  /**
   * A bridge is trusted with its own sandbox only: it has no say over another's members and turns. False for what this
   * store does not have at all: it was set back, and the bridge goes on from where it was.
   */
  function isOwn(row: SandboxRow, event: NumberedEvent["event"]): boolean {
    const owner = db.row(
      z.object({ sandbox: z.string() }),
      "SELECT sandbox FROM members WHERE id = ?",
      event.member,
    );
    const known =
      "turn" in event
        ? db.row(z.object({ member: z.string() }), "SELECT member FROM turns WHERE id = ?", event.turn)
        : event;
    if (owner?.sandbox === row.id && known?.member === event.member) return true;
    const isForeign =
      (owner !== null && owner.sandbox !== row.id) || (known !== null && known.member !== event.member);
    if (isForeign)
      throw new HoldfastError("FRAME_INVALID", `the bridge reports what is not its own (${event.type})`);
    return false;
  }

  /** A turn that the store does not have changed the conversation of a member that it may have. */
  function passOver(event: NumberedEvent["event"]): void {
    if (!("turn" in event)) return;
    mustProve(event.member, "a turn that the store does not know came before");
    if (event.type === "turn.ended") audit("turn.passed_over", event.turn, event.settlement.outcome);
  }

  function applyEvent(row: SandboxRow, entry: NumberedEvent, applied: Applied): void {
    const { event } = entry;
    if (!isOwn(row, event)) return passOver(event);
    // The end has a place of its own in the turn's row, unless that has one: then it is kept for who looks at the turn.
    if ("turn" in event && (event.type !== "turn.ended" || !isOpen(turn(event.turn)?.state ?? "unknown"))) {
      db.run(
        // After a rollback of the sandbox numbers come again; what was seen first stays.
        "INSERT INTO turn_events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        event.turn,
        entry.seq,
        entry.at,
        JSON.stringify(event),
      );
    }
    noteProcess(db, row.id, event, nowAt());
    noteCaller(db, row.id, entry);
    // All others are told to whoever follows the turn, and change no record.
    if (event.type === "turn.delivered")
      db.run("UPDATE turns SET state = 'delivered' WHERE id = ? AND state = 'admitted'", event.turn);
    else if (event.type === "member.unrequested") unrequested.keep(entry.at, event);
    else if (event.type === "turn.context") applyContext(row, event, applied);
    else if (event.type === "turn.ended")
      applyEnded(row, event.turn, event.member, event.settlement, applied);
  }

  function applyContext(row: SandboxRow, event: EventOf<"turn.context">, applied: Applied): void {
    if (event.nativeId === null) return;
    if (!claimNativeId(row.id, event.nativeId, event.member)) applied.conflicts.push(event.turn);
    const pending = member(event.member)?.pending_locator ?? null;
    // A context that has been proven, or begins anew: the host's record and the conversation are one again.
    const isMoving = isOpen(turn(event.turn)?.state ?? "unknown");
    if (isMoving && (event.status === "NEW" || event.status === "RESTORED"))
      db.run("UPDATE members SET must_prove = NULL WHERE id = ?", event.member);
    // LIVE and RESTORED come after the proof that a pending id was waiting for.
    const isProof = event.status === "LIVE" || event.status === "RESTORED";
    if (pending !== null && isProof && pending.nativeId === event.nativeId)
      saveLocator(pending, event.member);
  }

  return {
    id: present(db.row(z.object({ value: z.string() }), "SELECT value FROM meta WHERE name = 'id'")).value,
    get fence() {
      return db.fence();
    },
    hosts,
    checkOwned: db.checkFence,
    fenceOf: db.fenceOf,
    raiseFence(id, above) {
      if (above - db.fenceOf(id) > LEAP)
        throw new HoldfastError("FENCED", `a sandbox claims to have seen the fence ${above}`);
      db.raiseFence(id, above + 1);
      db.write(null, () => audit("store.fence", String(db.fenceOf(id)), `a sandbox has seen ${above}`));
    },
    audit: (what, subject, detail) => db.write(null, () => audit(what, subject, detail)),
    sandbox,
    sandboxes: () => db.rows(SandboxRow, `SELECT * FROM sandboxes WHERE ${db.mine("id")} ORDER BY rowid`),
    member,
    membersOf,
    turn,
    turnsOf: (id, limit) =>
      db.rows(TurnRow, "SELECT * FROM turns WHERE member = ? ORDER BY number DESC LIMIT ?", id, limit),
    openTurnsOf,
    eventsOf: (id) => eventsOf(db, id),
    unrequestedOf: unrequested.of,
    unknownTurnOf: inspections.unknownOf,
    inspectionOf: inspections.of,
    recordInspection: (id, note) => db.write({ turn: id }, () => inspections.record(id, note)),
    locatorHistory: (id) => locatorsOf(db, id),

    createSandbox: ({ id, kind, directory }) =>
      db.write(null, () => {
        if (sandbox(id) !== null) throw new HoldfastError("SANDBOX_EXISTS", `a sandbox ${id} exists`);
        db.run(
          "INSERT INTO sandboxes VALUES (?, ?, ?, 1, NULL, 'stopped', NULL, NULL, 0, ?)",
          id,
          kind,
          directory,
          nowAt(),
        );
        db.acquire(id);
        audit("sandbox.create", id, kind);
      }),
    bindContainer: (id, container) =>
      db.write({ sandbox: id }, () => {
        db.run(
          "UPDATE sandboxes SET container = ?, generation = ? WHERE id = ?",
          JSON.stringify(container),
          container.generation,
          id,
        );
        audit("sandbox.bind", id, container.containerId);
      }),
    setWanted: (id, wanted) =>
      db.write({ sandbox: id }, () => {
        db.run("UPDATE sandboxes SET wanted = ? WHERE id = ?", wanted, id);
        audit("sandbox.wanted", id, wanted);
      }),
    setUnready: (id, reasons) =>
      db.write({ sandbox: id }, () => {
        db.run(
          "UPDATE sandboxes SET unready = ? WHERE id = ?",
          reasons === null ? null : reasons.join("; "),
          id,
        );
        db.run("INSERT INTO attestations VALUES (?, ?, ?)", id, nowAt(), JSON.stringify(reasons ?? []));
      }),
    createMember: (row) => db.write({ sandbox: row.sandbox }, () => members.add(row, 0)),
    forkOf: forks.of,
    changeForks: (of, step) => db.write({ member: of }, () => step(forks)),
    setMemberOptions: (id, changed) =>
      db.write({ member: id }, () => {
        if (member(id) === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${id}`);
        db.run("UPDATE members SET options = ? WHERE id = ?", JSON.stringify(changed), id);
        audit("member.options", id, Object.keys(changed).join(" "));
      }),

    admit: ({ id, member: memberId, textSha256, textBytes }) =>
      db.write({ member: memberId }, () => {
        const owner = member(memberId);
        if (owner === null) throw new HoldfastError("MEMBER_UNKNOWN");
        if (turn(id) !== null) throw new HoldfastError("REQUEST_INVALID", `a turn ${id} exists`);
        const open = members.openTurnOf(memberId);
        if (open !== null) throw new HoldfastError("MEMBER_BUSY", `turn ${open.id} is ${open.state}`);
        inspections.check(memberId);
        forks.check(memberId);
        const number = owner.submissions + 1;
        db.run("UPDATE members SET submissions = ? WHERE id = ?", number, memberId);
        db.run(
          "INSERT INTO turns (id, member, number, state, text_sha256, text_bytes, submitted_at) VALUES (?, ?, ?, 'admitted', ?, ?, ?)",
          id,
          memberId,
          number,
          textSha256,
          textBytes,
          nowAt(),
        );
        return { turn: present(turn(id)), member: present(member(memberId)) };
      }),

    follow: (id, journal, unsent = new Set()) =>
      db.write({ sandbox: id }, () => {
        const row = present(sandbox(id));
        const decision = decideFollow({ journalId: row.journal_id, applied: row.applied }, journal);
        const { applied, lost } = decision;
        noteBridgeLife(db, id, journal, lost !== null);
        const isSame = row.journal_id === journal.journalId && row.applied === applied;
        if (isSame && lost === null) return { applied, lost: [] };
        db.run(
          "UPDATE sandboxes SET journal_id = ?, applied = ? WHERE id = ?",
          journal.journalId,
          applied,
          id,
        );
        if (lost === null) return { applied, lost: [] };
        audit("sandbox.journal_changed", id, `${journal.journalId}: ${lost.reason}`);
        const ended = openTurnsOf(id).flatMap(({ id: turnId }) => {
          if (unsent.has(turnId)) return [];
          const settlement = hostSettlement({
            outcome: "unknown",
            code: "DELIVERY_UNKNOWN",
            at: nowAt(),
            ...lost,
          });
          return endRecord(turnId, settlement) ? [{ turn: turnId, settlement }] : [];
        });
        for (const { id: memberId } of membersOf(id)) mustProve(memberId, lost.reason);
        return { applied, lost: ended };
      }),
    learnNumbers: (id, numbers) =>
      db.write({ sandbox: id }, () =>
        numbers.flatMap(({ member: memberId, number }) => {
          const known = member(memberId);
          if (known === null || known.sandbox !== id || number <= known.submissions) return [];
          // A number from which there is no way on is no word of a bridge of ours.
          if (number - known.submissions > LEAP)
            throw new HoldfastError("FRAME_INVALID", `the bridge names the turn number ${number}`);
          db.run("UPDATE members SET submissions = ? WHERE id = ?", number, memberId);
          mustProve(memberId, "the store is older than the sandbox");
          audit("member.numbers", memberId, `${known.submissions} -> ${number}`);
          return [memberId];
        }),
      ),

    apply: (id, entries) =>
      db.write({ sandbox: id }, () => {
        const row = present(sandbox(id));
        const applied: Applied = { events: [], settled: [], conflicts: [] };
        let at = row.applied;
        for (const entry of entries) {
          if (entry.seq <= at) continue;
          if (entry.seq !== at + 1)
            throw new HoldfastError("FRAME_INVALID", `a gap before event ${entry.seq}`);
          applyEvent(row, entry, applied);
          applied.events.push(entry);
          at = entry.seq;
        }
        db.run("UPDATE sandboxes SET applied = ? WHERE id = ?", at, id);
        return applied;
      }),

    noteLaunch: (id, bytes, queuedMs) =>
      db.write({ turn: id }, () => noteLaunch(db, present(turn(id)), bytes, queuedMs, nowAt())),
    launchOf(id) {
      const found = turn(id);
      return found?.launch == null ? null : present(readRevision(db, found.member, found.launch));
    },
    launchesOf: (id) => readRevisions(db, id),
    calls: createModelCalls(db),
    mayCall: (id, caller) => mayCall(db, id, caller),
    residents: () => readResidents(db),
    setResidents: (id, seen) => db.write({ sandbox: id }, () => replaceResidents(db, id, seen, nowAt())),

    end: (id, settlement) => db.write({ turn: id }, () => endRecord(id, settlement)),
    close: () => db.close(),
  };
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("STORE_ERROR", "a record that must be there is not");
  return value;
}
