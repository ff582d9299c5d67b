/** Members in the store: how one comes about, and whether it is busy. */
import { HoldfastError } from "../../protocol/errors.ts";
import type { CliName } from "../../protocol/locator.ts";
import { type MemberOptions, type MemberRow, TurnRow } from "./records.ts";
import type { Database } from "./sqlite.ts";

export interface Members {
  /**
   * Inside a transaction. Throws REQUEST_INVALID when there is one with this id.
   * @param settledTurns of the conversation with which it begins; 0 for a new one
   */
  add(row: { id: string; sandbox: string; cli: CliName; options: MemberOptions }, settledTurns: number): void;
  openTurnOf(member: string): TurnRow | null;
}

export function createMembers(options: {
  db: Database;
  nowAt: () => number;
  member(id: string): MemberRow | null;
  audit(what: string, subject: string, detail: string): void;
}): Members {
  const { db } = options;
  return {
    add({ id, sandbox, cli, options: given }, settledTurns) {
      if (options.member(id) !== null) throw new HoldfastError("REQUEST_INVALID", `a member ${id} exists`);
      db.run(
        "INSERT INTO members (id, sandbox, cli, options, submissions, settled_turns, created_at) VALUES (?, ?, ?, ?, 0, ?, ?)",
        id,
        sandbox,
        cli,
        JSON.stringify(given),
        settledTurns,
        options.nowAt(),
      );
      options.audit("member.create", id, sandbox);
    },
    openTurnOf: (member) =>
      db.row(TurnRow, "SELECT * FROM turns WHERE member = ? AND ended_at IS NULL", member),
  };
}
