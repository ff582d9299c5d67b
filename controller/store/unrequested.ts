/** What a CLI did by itself, with no turn of ours, in the store: the newest of each member, however much it does. */
import * as z from "zod/mini";
import { ControlEvent } from "../../protocol/events.ts";
import type { Database } from "./sqlite.ts";
import type { UnrequestedEntry } from "./store.ts";

/** Events kept of a member. Beyond: the oldest goes. */
export const UNREQUESTED_KEPT = 200;

export interface Unrequested {
  of(member: string): UnrequestedEntry[];
  /** Inside a transaction. */
  keep(at: number, event: UnrequestedEntry["event"]): void;
}

export function createUnrequested(db: Database): Unrequested {
  const Row = z.object({ at: z.number(), event: z.string() });
  return {
    of: (member) =>
      db
        .rows(Row, "SELECT at, event FROM member_events WHERE member = ? ORDER BY id", member)
        .flatMap(({ at, event: text }) => {
          const event = ControlEvent.parse(JSON.parse(text));
          return event.type === "member.unrequested" ? [{ at, event }] : [];
        }),
    keep(at, event) {
      const text = JSON.stringify(event);
      db.run("INSERT INTO member_events (member, at, event) VALUES (?, ?, ?)", event.member, at, text);
      db.run(
        `DELETE FROM member_events WHERE member = ?1 AND id <=
           (SELECT id FROM member_events WHERE member = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`,
        event.member,
        UNREQUESTED_KEPT,
      );
    },
  };
}
