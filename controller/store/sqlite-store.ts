/** The store's contract over SQLite. Rows and steps; what a settlement means is `settle.ts`'s. */
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import { type ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import { Locator } from "../../protocol/locator.ts";
import { checkMove, isOpen, recordStateOf } from "../../protocol/record-state.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { hostSettlement } from "../host-settlement.ts";
import { keepRevision, readRevision, readRevisions } from "./launch-revisions.ts";
import { MemberRow, SandboxRow, TurnRow } from "./records.ts";
import { noteProcess, readResidents, replaceResidents } from "./residents.ts";
import { settleMember } from "./settle.ts";
import {
  type Database,
  type DatabaseOptions,
  openDatabase,
  RESTORED_JOURNAL,
  RESTORED_MARK,
} from "./sqlite.ts";
import type { Applied, Store } from "./store.ts";

export interface StoreOptions extends DatabaseOptions {
  nowAt: () => number;
  /** The pinned version of a CLI, for its locators. */
  cliVersion: (cli: string) => string;
}

type EventOf<T extends ControlEvent["type"]> = Extract<ControlEvent, { type: T }>;

const TURNS_OF_SANDBOX = `SELECT turns.* FROM turns JOIN members ON members.id = turns.member WHERE members.sandbox = ?`;

export function openStore(options: StoreOptions): Store {
  const db: Database = openDatabase(options);
  const { nowAt } = options;
  /** Sandboxes may know turns and members that this store has lost. */
  const isRestored =
    db.row(z.object({ value: z.string() }), "SELECT value FROM meta WHERE name = ?", RESTORED_MARK) !== null;

  const sandbox = (id: string) => db.row(SandboxRow, "SELECT * FROM sandboxes WHERE id = ?", id);
  const member = (id: string) => db.row(MemberRow, "SELECT * FROM members WHERE id = ?", id);
  const turn = (id: string) => db.row(TurnRow, "SELECT * FROM turns WHERE id = ?", id);
  const openTurnsOf = (id: string) => db.rows(TurnRow, `${TURNS_OF_SANDBOX} AND turns.ended_at IS NULL`, id);

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
      "UPDATE turns SET state = ?, settlement = ?, ended_at = ? WHERE id = ?",
      state,
      JSON.stringify(settlement),
      nowAt(),
      id,
    );
    return true;
  }

  function saveLocator(locator: Locator, memberId: string): void {
    const text = JSON.stringify(locator);
    db.run("UPDATE members SET locator = ?, pending_locator = NULL WHERE id = ?", text, memberId);
    db.run("INSERT INTO locator_history VALUES (?, ?, ?, ?)", memberId, locator.settledTurns, text, nowAt());
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
    db.run("INSERT OR IGNORE INTO native_ids VALUES (?, ?, ?)", sandboxId, nativeId, memberId);
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
    applied.settled.push({ turn: turnId, settlement: result.settlement });
  }

  /**
   * A bridge is trusted with its own sandbox only: it has no say over another's members and turns. False for what this
   * store has forgotten, since it was brought back from a backup. Throws FRAME_INVALID.
   */
  function checkOwn(row: SandboxRow, event: NumberedEvent["event"]): boolean {
    const owner = db.row(
      z.object({ sandbox: z.string() }),
      "SELECT sandbox FROM members WHERE id = ?",
      event.member,
    );
    const known = "turn" in event ? turn(event.turn) : null;
    const isOwnTurn = !("turn" in event) || known?.member === event.member;
    if (owner?.sandbox === row.id && isOwnTurn) return true;
    const isForgotten = (owner === null || owner.sandbox === row.id) && known === null;
    if (isRestored && isForgotten) return false;
    throw new HoldfastError("FRAME_INVALID", `the bridge reports what is not its own (${event.type})`);
  }

  function applyEvent(row: SandboxRow, entry: NumberedEvent, applied: Applied): void {
    const { event } = entry;
    if (!checkOwn(row, event)) return audit("event.forgotten", row.id, event.type);
    // The end has a place of its own in the turn's row.
    if ("turn" in event && event.type !== "turn.ended") {
      db.run(
        // After a rollback of the sandbox numbers come again; what was seen first stays.
        "INSERT OR IGNORE INTO turn_events VALUES (?, ?, ?, ?)",
        event.turn,
        entry.seq,
        entry.at,
        JSON.stringify(event),
      );
    }
    noteProcess(db, row.id, event, nowAt());
    // All others are told to whoever follows the turn, and change no record.
    if (event.type === "turn.delivered")
      db.run("UPDATE turns SET state = 'delivered' WHERE id = ? AND state = 'admitted'", event.turn);
    else if (event.type === "turn.context") applyContext(row, event, applied);
    else if (event.type === "turn.ended")
      applyEnded(row, event.turn, event.member, event.settlement, applied);
  }

  function applyContext(row: SandboxRow, event: EventOf<"turn.context">, applied: Applied): void {
    if (event.nativeId === null) return;
    if (!claimNativeId(row.id, event.nativeId, event.member)) applied.conflicts.push(event.turn);
    const pending = member(event.member)?.pending_locator ?? null;
    // LIVE and RESTORED come after the proof that a pending id was waiting for.
    const isProof = event.status === "LIVE" || event.status === "RESTORED";
    if (pending !== null && isProof && pending.nativeId === event.nativeId)
      saveLocator(pending, event.member);
  }

  return {
    id: present(db.row(z.object({ value: z.string() }), "SELECT value FROM meta WHERE name = 'id'")).value,
    fence: db.fence,
    audit: (what, subject, detail) => db.write(() => audit(what, subject, detail)),
    sandbox,
    sandboxes: () => db.rows(SandboxRow, "SELECT * FROM sandboxes ORDER BY created_at, id"),
    member,
    membersOf: (id) =>
      db.rows(MemberRow, "SELECT * FROM members WHERE sandbox = ? ORDER BY created_at, id", id),
    turn,
    turnsOf: (id, limit) =>
      db.rows(TurnRow, "SELECT * FROM turns WHERE member = ? ORDER BY number DESC LIMIT ?", id, limit),
    openTurnsOf,
    eventsOf: (id) =>
      db
        .rows(
          z.object({ seq: z.number(), at: z.number(), event: z.string() }),
          "SELECT seq, at, event FROM turn_events WHERE turn = ? ORDER BY seq",
          id,
        )
        .map(({ seq, at, event }) => NumberedEvent.parse({ seq, at, event: JSON.parse(event) })),
    locatorHistory: (id) =>
      db
        .rows(
          z.object({ locator: z.string() }),
          "SELECT locator FROM locator_history WHERE member = ? ORDER BY settled_turns",
          id,
        )
        .map(({ locator }) => Locator.parse(JSON.parse(locator))),

    createSandbox: ({ id, kind, directory }) =>
      db.write(() => {
        if (sandbox(id) !== null) throw new HoldfastError("SANDBOX_EXISTS", `a sandbox ${id} exists`);
        db.run(
          "INSERT INTO sandboxes VALUES (?, ?, ?, 1, NULL, 'stopped', NULL, NULL, 0, ?)",
          id,
          kind,
          directory,
          nowAt(),
        );
        audit("sandbox.create", id, kind);
      }),
    bindContainer: (id, container) =>
      db.write(() => {
        db.run(
          "UPDATE sandboxes SET container = ?, generation = ? WHERE id = ?",
          JSON.stringify(container),
          container.generation,
          id,
        );
        audit("sandbox.bind", id, container.containerId);
      }),
    setWanted: (id, wanted) =>
      db.write(() => {
        db.run("UPDATE sandboxes SET wanted = ? WHERE id = ?", wanted, id);
        audit("sandbox.wanted", id, wanted);
      }),
    setUnready: (id, reasons) =>
      db.write(() => {
        db.run(
          "UPDATE sandboxes SET unready = ? WHERE id = ?",
          reasons === null ? null : reasons.join("; "),
          id,
        );
        db.run("INSERT INTO attestations VALUES (?, ?, ?)", id, nowAt(), JSON.stringify(reasons ?? []));
      }),
    createMember: (row) =>
      db.write(() => {
        if (member(row.id) !== null) throw new HoldfastError("REQUEST_INVALID", `a member ${row.id} exists`);
        db.run(
          "INSERT INTO members VALUES (?, ?, ?, ?, 0, 0, NULL, NULL, ?)",
          row.id,
          row.sandbox,
          row.cli,
          JSON.stringify(row.options),
          nowAt(),
        );
        audit("member.create", row.id, row.sandbox);
      }),

    admit: ({ id, member: memberId, textSha256, textBytes }) =>
      db.write(() => {
        const owner = member(memberId);
        if (owner === null) throw new HoldfastError("MEMBER_UNKNOWN");
        if (turn(id) !== null) throw new HoldfastError("REQUEST_INVALID", `a turn ${id} exists`);
        const open = db.row(TurnRow, "SELECT * FROM turns WHERE member = ? AND ended_at IS NULL", memberId);
        if (open !== null) throw new HoldfastError("MEMBER_BUSY", `turn ${open.id} is ${open.state}`);
        const last = db.row(
          TurnRow,
          "SELECT * FROM turns WHERE member = ? ORDER BY number DESC LIMIT 1",
          memberId,
        );
        if (last?.state === "unknown") {
          throw new HoldfastError("MEMBER_BUSY", `turn ${last.id} is unknown: nobody can prove how it ended`);
        }
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

    follow: (id, head, unsent = new Set()) =>
      db.write(() => {
        const row = present(sandbox(id));
        const isSame = row.journal_id === head.journalId && row.applied <= head.seq;
        if (isSame) return { applied: row.applied, lost: [] };
        const isFirst = row.journal_id === null;
        const wasRestored = row.journal_id === RESTORED_JOURNAL;
        const lost = isFirst
          ? []
          : openTurnsOf(id).flatMap(({ id: turnId }) => {
              if (unsent.has(turnId)) return [];
              const settlement = hostSettlement({
                outcome: "unknown",
                code: "DELIVERY_UNKNOWN",
                reason: wasRestored
                  ? "the store was brought back from a backup that was made before the turn's end"
                  : "the bridge's journal is another one, or was rolled back",
                what: wasRestored ? "store_restored" : "journal_lost",
                at: nowAt(),
              });
              return endRecord(turnId, settlement) ? [{ turn: turnId, settlement }] : [];
            });
        const applied = wasRestored || row.journal_id === head.journalId ? head.seq : 0;
        db.run("UPDATE sandboxes SET journal_id = ?, applied = ? WHERE id = ?", head.journalId, applied, id);
        if (!isFirst) audit("sandbox.journal_changed", id, head.journalId);
        return { applied, lost };
      }),

    apply: (id, entries) =>
      db.write(() => {
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
      db.write(() => {
        const sha256 = keepRevision(db, present(turn(id)).member, bytes, nowAt());
        db.run("UPDATE turns SET launch = ?, queued_ms = ? WHERE id = ?", sha256, queuedMs, id);
        return sha256;
      }),
    launchOf(id) {
      const found = turn(id);
      return found?.launch == null ? null : present(readRevision(db, found.member, found.launch));
    },
    launchesOf: (id) => readRevisions(db, id),
    residents: () => readResidents(db),
    setResidents: (id, seen) => db.write(() => replaceResidents(db, id, seen, nowAt())),

    end: (id, settlement) => db.write(() => endRecord(id, settlement)),
    close: () => db.close(),
  };
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("STORE_ERROR", "a record that must be there is not");
  return value;
}
