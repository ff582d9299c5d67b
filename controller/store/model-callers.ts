/**
 * Which CLI processes may ask the model: the one that each member started last, in the life of its bridge that is
 * followed now, until it ends. No token is kept, only whose turn it is; tokens prove themselves.
 */
import * as z from "zod/mini";
import type { NumberedEvent } from "../../protocol/events.ts";
import type { ModelCaller } from "../../protocol/model-token.ts";
import type { JournalSight } from "./follow.ts";
import type { Database } from "./sqlite.ts";

const Life = z.object({ epoch: z.number(), head: z.number() });
const Process = z.object({ generation: z.number(), has_ended: z.number() });

const lifeOf = (db: Database, sandbox: string) =>
  db.row(Life, "SELECT epoch, head FROM bridge_lives WHERE sandbox = ?", sandbox);

/**
 * Takes a bridge's hello. With a new life, or a journal that was set back, every process of before is dead. Inside a
 * transaction.
 */
export function noteBridgeLife(db: Database, sandbox: string, journal: JournalSight, wasLost: boolean): void {
  if (!wasLost && lifeOf(db, sandbox)?.epoch === journal.epoch) return;
  // Processes are started on a controller's word only: what this life journaled before its first hello is none.
  db.run(
    `INSERT INTO bridge_lives VALUES (?, ?, ?)
       ON CONFLICT (sandbox) DO UPDATE SET epoch = excluded.epoch, head = excluded.head`,
    sandbox,
    journal.epoch,
    journal.seq,
  );
  db.run("DELETE FROM model_callers WHERE member IN (SELECT id FROM members WHERE sandbox = ?)", sandbox);
}

/** Folds a bridge's event in; most say nothing of it. Inside a transaction. */
export function noteCaller(db: Database, sandbox: string, { seq, event }: NumberedEvent): void {
  if (event.type !== "member.process" || seq <= (lifeOf(db, sandbox)?.head ?? 0)) return;
  const { member, processGeneration: generation, state } = event;
  const known = callerOf(db, member);
  // The late end of an earlier process says nothing of the one in its place.
  if (known !== null && generation < known.generation) return;
  const hasEnded = state === "exited" || state === "retired" ? 1 : 0;
  db.run(
    `INSERT INTO model_callers VALUES (?, ?, ?)
       ON CONFLICT (member) DO UPDATE SET generation = excluded.generation, has_ended = excluded.has_ended`,
    member,
    generation,
    hasEnded,
  );
}

/**
 * Whether that process may still ask. One that is newer than any that was heard of may: its start is on its way, and
 * nobody but the bridge can name it.
 */
export function mayCall(db: Database, sandbox: string, caller: ModelCaller): boolean {
  if (lifeOf(db, sandbox)?.epoch !== caller.epoch) return false;
  const known = callerOf(db, caller.member);
  if (known === null || caller.processGeneration > known.generation) return true;
  return caller.processGeneration === known.generation && known.has_ended === 0;
}

function callerOf(db: Database, member: string): z.infer<typeof Process> | null {
  return db.row(Process, "SELECT generation, has_ended FROM model_callers WHERE member = ?", member);
}
