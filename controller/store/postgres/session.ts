/** What a fresh connection is set to before anything runs on it, and what a server must be to be taken. */
import type pg from "pg";
import { PostgresFault } from "./faults.ts";
import type { ConnectionOptions } from "./messages.ts";

/** Identifies the server's end of a connection, also among later ones with its process id. */
export interface Session {
  pid: number;
  startedAt: string;
}

/** Older ones lack the check whether a client is still there while a statement runs. */
const OLDEST_VERSION = 140_000;

interface Facts {
  version: number;
  standby: boolean;
  encoding: string;
  pid: number;
  started: string;
}

/** Rejects with the server's error, or a PostgresFault for a server that can't hold a store. */
export async function prepareSession(client: pg.Client, options: ConnectionOptions): Promise<Session> {
  const answers = (await client.query(settings(options))) as unknown as Array<pg.QueryResult<Facts>>;
  const facts = answers.at(-1)?.rows[0];
  const problem = facts === undefined ? "it says nothing of itself" : serverProblem(facts);
  if (facts === undefined || problem !== null)
    throw new PostgresFault({ kind: "absent", code: "", message: problem ?? "" });
  return { pid: facts.pid, startedAt: facts.started };
}

/** Why a server can't hold a store, or null. */
export function serverProblem({ version, standby, encoding }: Omit<Facts, "pid" | "started">): string | null {
  if (version < OLDEST_VERSION)
    return `the server is PostgreSQL ${Math.floor(version / 10_000)}, and a store needs 14 or newer`;
  if (standby) return "the server is a standby and takes no writes: name the primary";
  if (encoding !== "UTF8") return `the database is encoded as ${encoding}, and a store needs UTF8`;
  return null;
}

/**
 * The server gives up before we do. A transaction whose controller froze is ended, so that its locks hold nobody up; a
 * commit is on the disk when it is answered, whatever the server's default.
 */
function settings({ schema, limitMs }: ConnectionOptions): string {
  const serverMs = Math.max(1, Math.floor(limitMs * 0.9));
  return `
    SET search_path = "${schema}";
    SET statement_timeout = ${serverMs};
    SET lock_timeout = ${serverMs};
    SET idle_in_transaction_session_timeout = ${limitMs};
    SET client_connection_check_interval = 1000;
    SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SET TimeZone = 'UTC';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
    SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS standby,
      current_setting('server_encoding') AS encoding, pg_backend_pid() AS pid,
      (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS started`;
}
