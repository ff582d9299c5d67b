/** What a turn and a member leave behind them, oldest first. */
import * as z from "zod/mini";
import { NumberedEvent } from "../../protocol/events.ts";
import { Locator } from "../../protocol/locator.ts";
import type { Database } from "./sqlite.ts";

const EventRow = z.object({ seq: z.number(), at: z.number(), event: z.string() });
const LocatorRow = z.object({ locator: z.string() });

/** Of a turn. */
export function eventsOf(db: Database, turn: string): NumberedEvent[] {
  const rows = db.rows(EventRow, "SELECT seq, at, event FROM turn_events WHERE turn = ? ORDER BY seq", turn);
  return rows.map(({ seq, at, event }) => NumberedEvent.parse({ seq, at, event: JSON.parse(event) }));
}

/** Of a member: every locator that was saved. */
export function locatorsOf(db: Database, member: string): Locator[] {
  const sql = "SELECT locator FROM locator_history WHERE member = ? ORDER BY settled_turns";
  return db.rows(LocatorRow, sql, member).map(({ locator }) => Locator.parse(JSON.parse(locator)));
}
