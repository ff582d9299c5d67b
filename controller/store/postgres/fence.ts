/**
 * Who owns a host, in the database: a lock that a connection holds while it lives, so that two controllers do not take the
 * same host by accident, and a fence that only rises, which every write is checked against. The lock may be lost with its
 * connection; the fence decides.
 */
import type pg from "pg";
import { LEASE_MS } from "../../hosts/lease-clock.ts";
import type { Subject } from "../sqlite.ts";
import { literal } from "./dialect.ts";
import { PostgresFault } from "./faults.ts";
import type { Owner } from "./messages.ts";
import type { Session } from "./session.ts";

/** The server's time, epoch ms. */
export const SERVER_NOW = "(extract(epoch from clock_timestamp()) * 1000)::float8";

/** Begins a write that no fence is checked for: its own row locks are all. */
export const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/**
 * Begins a write: the host's fence, and the leases of the sandboxes that it concerns, stay what they are until it has ended.
 * One answer, no parameters: `fence`, and `leases` of which there are none for a subject that nobody knows.
 */
export function beginFenced(host: string, of: Subject): string {
  const leases =
    of === null
      ? "NULL"
      : `(SELECT json_agg(l) FROM (SELECT sandbox, host, fence, released_to FROM leases WHERE sandbox IN (${sandboxesOf(of)}) FOR SHARE) l)`;
  return `${BEGIN};
    SELECT (SELECT fence FROM hosts WHERE id = ${literal(host)} FOR SHARE) AS fence, ${leases} AS leases`;
}

function sandboxesOf(of: NonNullable<Subject>): string {
  if ("sandboxes" in of) return of.sandboxes.length === 0 ? "NULL" : of.sandboxes.map(literal).join(", ");
  if ("sandbox" in of) return literal(of.sandbox);
  if ("member" in of) return `SELECT sandbox FROM members WHERE id = ${literal(of.member)}`;
  return `SELECT m.sandbox FROM turns t JOIN members m ON m.id = t.member WHERE t.id = ${literal(of.turn)}`;
}

const READ_FENCE = "SELECT fence FROM hosts WHERE id = $1";
export const READ_OWNED = `SELECT fence, coalesce(alive_until > ${SERVER_NOW}, false) AS is_alive FROM hosts WHERE id = $1`;
/**
 * The host's controller is a new one from here on, and so are the numbers of its sandboxes. No row for a host that was
 * removed: nothing of it has changed then.
 */
export const RAISE = `WITH h AS (
    INSERT INTO hosts AS known (id, fence, state, beat_at, alive_until)
    VALUES ($1, nextval('fences'), 'active', ${SERVER_NOW}, ${SERVER_NOW} + ${LEASE_MS})
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, beat_at = excluded.beat_at, alive_until = excluded.alive_until,
      ended_at = NULL, state = CASE WHEN known.state = 'draining' THEN known.state ELSE 'active' END
    WHERE known.state <> 'removed' RETURNING fence
  ), l AS (
    UPDATE leases SET fence = nextval('fences')
    WHERE host = $1 AND released_to IS NULL AND EXISTS (SELECT FROM h) RETURNING sandbox, fence
  ) SELECT h.fence, (SELECT json_agg(l) FROM l) AS leases FROM h`;
/** The same of a host that is only looked at. */
export const READ_HOST = `SELECT fence, (SELECT json_agg(l) FROM (SELECT sandbox, fence FROM leases WHERE host = $1) l) AS leases
  FROM hosts WHERE id = $1`;
/** Above what a sandbox has seen, and so are all that come. */
export const SET_LEASE = `UPDATE leases SET fence = setval('fences', greatest($2, (SELECT last_value FROM fences)))
  WHERE sandbox = $1 RETURNING fence`;
export const ACQUIRE =
  "INSERT INTO leases (sandbox, host, fence) VALUES ($1, $2, nextval('fences')) RETURNING fence";

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
  if (fence !== owner.fence)
    throw new PostgresFault({
      kind: "fenced",
      code: "",
      message: `the host's fence is ${fence ?? "gone"}, ours is ${owner.fence}`,
    });
  if (locks[0]?.held === true) return;
  throw new PostgresFault({
    kind: "absent",
    code: "",
    message: `the lock of host ${owner.host} is not free again yet`,
  });
}
