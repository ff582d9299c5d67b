/** The notes on unknown turns, in the store: who needs one, and that the first one stays. */
import { HoldfastError } from "../../protocol/errors.ts";
import { InspectionRow, TurnRow } from "./records.ts";
import type { Database } from "./sqlite.ts";

export interface Inspections {
  of(turn: string): InspectionRow | null;
  /** A turn of the member that is unknown and that nobody has looked at, or null. */
  unknownOf(member: string): TurnRow | null;
  /** Throws INSPECTION_NEEDED when a turn of the member is unknown and nobody has looked at it. */
  check(member: string): void;
  /** Inside a transaction. Throws TURN_UNKNOWN, INSPECTION_NOT_NEEDED. */
  record(turn: string, note: string): InspectionRow;
}

export function createInspections(options: {
  db: Database;
  nowAt: () => number;
  turn(id: string): TurnRow | null;
  audit(what: string, subject: string, detail: string): void;
}): Inspections {
  const { db } = options;
  const of = (turn: string) => db.row(InspectionRow, "SELECT * FROM inspections WHERE turn = ?", turn);
  const unknownOf = (member: string) =>
    db.row(
      TurnRow,
      `SELECT turns.* FROM turns LEFT JOIN inspections ON inspections.turn = turns.id
         WHERE turns.member = ? AND turns.state = 'unknown' AND inspections.turn IS NULL LIMIT 1`,
      member,
    );

  return {
    of,
    unknownOf,
    check(member) {
      const found = unknownOf(member);
      if (found === null) return;
      throw new HoldfastError(
        "INSPECTION_NEEDED",
        `turn ${found.id} is unknown: nobody can prove how it ended`,
        {
          details: { turn: found.id },
        },
      );
    },
    record(turn, note) {
      const row = options.turn(turn);
      if (row === null) throw new HoldfastError("TURN_UNKNOWN", `no turn ${turn}`);
      if (row.state !== "unknown")
        throw new HoldfastError("INSPECTION_NOT_NEEDED", `turn ${turn} is ${row.state}, not unknown`);
      const known = of(turn);
      if (known?.note === note) return known;
      if (known !== null)
        throw new HoldfastError("INSPECTION_NOT_NEEDED", `turn ${turn} has its note already`);
      const made = { turn, at: options.nowAt(), note };
      db.run("INSERT INTO inspections VALUES (?, ?, ?)", turn, made.at, note);
      options.audit("turn.inspected", turn, note);
      return made;
    },
  };
}
