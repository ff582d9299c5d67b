/**
 * Who owns a host, in the database: a lock that a connection holds while it lives, so that two controllers do not take the
 * same host by accident, and a fence that only rises, which every write is checked against. The lock may be lost with its
 * connection; the fence decides.
 */
import type pg from "pg";
import { literal } from "./dialect.ts";
import { PostgresFault } from "./faults.ts";
import type { Owner } from "./messages.ts";
import type { Session } from "./session.ts";

/** Begins a write: the fence's row stays what it is until the write has ended. One answer, no parameters. */
export function beginFenced(host: string): string {
  return `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SELECT fence FROM hosts WHERE id = ${literal(host)} FOR SHARE`;
}

export const READ_FENCE = "SELECT fence FROM hosts WHERE id = $1";
export const RAISE_FENCE = `INSERT INTO hosts (id, fence) VALUES ($1, 1)
  ON CONFLICT (id) DO UPDATE SET fence = hosts.fence + 1 RETURNING fence`;
export const SET_FENCE = "UPDATE hosts SET fence = $2 WHERE id = $1";

/** The number of the lock of a host in this database. */
function lockKey(schema: string, host: string): string {
  return `hashtextextended(${literal(`holdfast host ${schema} ${host}`)}, 0)`;
}

/** `held` is true when this connection has the lock. */
export function tryLock(schema: string, host: string): string {
  return `SELECT pg_try_advisory_lock(${lockKey(schema, host)}) AS held`;
}

/** Ends the connections that have the lock, which lets go of it. */
export function endHolders(schema: string, host: string): string {
  return `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND ((l.classid::bigint << 32) | l.objid::bigint) = ${lockKey(schema, host)}`;
}

/**
 * On a fresh connection of a store that owns a host: takes the lock again, and makes sure that nobody raised the fence
 * meanwhile. Rejects with a PostgresFault: `fenced`, or `absent` while the lock is still our lost connection's.
 */
export async function claimHost(
  client: pg.Client,
  { schema, owner, before }: { schema: string; owner: Owner; before: Session | null },
): Promise<void> {
  if (before !== null)
    await client.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2",
      [before.pid, before.startedAt],
    );
  const { rows: locks } = await client.query<{ held: boolean }>(tryLock(schema, owner.host));
  const { rows } = await client.query<{ fence: number }>(READ_FENCE, [owner.host]);
  const fence = rows[0]?.fence;
  if (fence === undefined || !owner.fences.includes(fence))
    throw new PostgresFault({
      kind: "fenced",
      code: "",
      message: `the host's fence is ${fence ?? "gone"}, ours is ${owner.fences.join(" or ")}`,
    });
  if (locks[0]?.held === true) return;
  throw new PostgresFault({
    kind: "absent",
    code: "",
    message: `the lock of host ${owner.host} is not free again yet`,
  });
}
