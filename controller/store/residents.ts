/**
 * The CLI processes that are resident now, as their bridges told: kept so that whoever looks beside the controller sees
 * them, and the next controller knows which were used longest ago. What is here may be behind; the bridge's word replaces it.
 */
import * as z from "zod/mini";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Database } from "./sqlite.ts";

export const ResidentRow = z.object({
  member: z.string(),
  sandbox: z.string(),
  /** Counts the member's processes in its bridge's life. */
  generation: z.number(),
  since: z.number(),
  /** Order of last use, over all members. */
  used: z.number(),
  used_at: z.number(),
  /** Of all processes of the slot, shared pages counted in each; null until the bridge was asked. */
  rss_bytes: z.nullable(z.number()),
});
export type ResidentRow = z.infer<typeof ResidentRow>;

/** What a bridge says of a resident process. */
export interface SeenResident {
  member: string;
  processGeneration: number;
  rssBytes: number | null;
}

export function readResidents(db: Database): ResidentRow[] {
  return db.rows(ResidentRow, `SELECT * FROM residents WHERE ${db.mine("sandbox")} ORDER BY used, member`);
}

/** Folds a bridge's event in; most say nothing of it. Inside a transaction. */
export function noteProcess(db: Database, sandbox: string, event: ControlEvent, at: number): void {
  if (event.type === "turn.ended") {
    db.run(`UPDATE residents SET used = ${NEXT_USE}, used_at = ? WHERE member = ?`, at, event.member);
  } else if (event.type === "member.process" && event.state === "ready") {
    insert(db, sandbox, { ...event, rssBytes: null }, at);
  } else if (event.type === "member.process" && event.state !== "started") {
    const { member, processGeneration } = event;
    db.run("DELETE FROM residents WHERE member = ? AND generation <= ?", member, processGeneration);
  }
}

/** What the bridge says is all that there is in its sandbox. Inside a transaction. */
export function replaceResidents(
  db: Database,
  sandbox: string,
  seen: readonly SeenResident[],
  at: number,
): void {
  const known = new Map(
    readResidents(db).flatMap((row) => (row.sandbox === sandbox ? [[row.member, row]] : [])),
  );
  for (const each of seen) {
    const row = known.get(each.member);
    known.delete(each.member);
    if (row?.generation !== each.processGeneration) insert(db, sandbox, each, at);
    else db.run("UPDATE residents SET rss_bytes = ? WHERE member = ?", each.rssBytes, each.member);
  }
  for (const member of known.keys()) db.run("DELETE FROM residents WHERE member = ?", member);
}

const NEXT_USE = "(SELECT coalesce(max(used), 0) + 1 FROM residents)";

function insert(db: Database, sandbox: string, seen: SeenResident, at: number): void {
  // A member that the bridge of another sandbox names is none of its.
  db.run(
    `INSERT INTO residents SELECT id, sandbox, CAST(? AS BIGINT), CAST(? AS DOUBLE PRECISION), ${NEXT_USE},
         CAST(? AS DOUBLE PRECISION), CAST(? AS BIGINT) FROM members WHERE id = ? AND sandbox = ?
       ON CONFLICT (member) DO UPDATE SET sandbox = excluded.sandbox, generation = excluded.generation,
         since = excluded.since, used = excluded.used, used_at = excluded.used_at, rss_bytes = excluded.rss_bytes`,
    seen.processGeneration,
    at,
    at,
    seen.rssBytes,
    seen.member,
    sandbox,
  );
}
