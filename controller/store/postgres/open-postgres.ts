/**
 * Opens the store in a PostgreSQL database: connects, takes the host, brings the layout up, raises the host's fence.
 * Several controllers may do so at once; each host has one owner.
 */
import * as z from "zod/mini";
import { HoldfastError } from "../../../protocol/errors.ts";
import { parseRow } from "../records.ts";
import { toPostgres, type Value } from "./dialect.ts";
import { openingError, placeOf } from "./faults.ts";
import { endHolders, RAISE, READ_HOST, tryLock } from "./fence.ts";
import type { Answer, Request, Row } from "./messages.ts";
import { beginMigration, checkLayout, HAS_LAYOUT, READ_LAYOUT, restOfMigration } from "./migrations.ts";
import { startSyncClient } from "./sync-client.ts";
import { createDatabase, type SharedDatabase } from "./transactions.ts";

export interface PostgresOptions {
  /**
   * `postgres://USER@HOST:PORT/DATABASE`, as libpq takes it; `postgres:///DATABASE?user=USER&host=/FOLDER` for a Unix
   * socket. A password in it is never
   * shown; better ones are PGPASSWORD and `.pgpass`. Connections go to the server itself: locks and prepared statements
   * belong to a session.
   */
  url: string;
  /** Name of this controller's host; each has one owner. Default "host". */
  host?: string;
  /** Schema that the store is in; made when missing. Default "holdfast". */
  schema?: string;
  /** Without ownership nothing can be written; for commands that only look. */
  readOnly?: boolean;
  /** `operator`: owns no host, and moves them. Default "controller". */
  role?: "controller" | "operator";
  /** Takes the host from an owner that does not let go of it; that one is fenced off. */
  takeOver?: boolean;
  /** How long one statement may take, ms; 5000 when missing. Beyond: STORE_ERROR, and the connection is thrown away. */
  limitMs?: number;
}

const LIMIT_MS = 5000;
/** For the start of the connection's thread. */
const START_MS = 10_000;
/** Bringing up a layout, and waiting for another controller that does. */
const MIGRATION_MS = 600_000;
/** A server notices the end of a controller's process a moment later. */
const OWNED_MS = 1000;
const POLL_MS = 50;

const Owned = z.object({
  fence: z.number(),
  leases: z.nullable(z.array(z.object({ sandbox: z.string(), fence: z.number() }))),
});
type Owned = z.infer<typeof Owned>;
const Layout = z.object({ number: z.number() });

/** Throws STORE_OWNED, STORE_NEWER, STORE_ERROR, REQUEST_INVALID. */
export function openPostgres(options: PostgresOptions): SharedDatabase {
  const { url, host = "host", schema = "holdfast", limitMs = LIMIT_MS } = options;
  const isReadOnly = options.readOnly === true;
  const isOperator = options.role === "operator";
  const place = placeOf(url);
  if (place === null)
    throw new HoldfastError(
      "REQUEST_INVALID",
      "the store's URL is not one of a PostgreSQL database: postgres://USER@HOST:PORT/DATABASE",
    );
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema))
    throw new HoldfastError("REQUEST_INVALID", `${schema} is no name of a schema: a-z, 0-9 and _`);
  const client = startSyncClient({ url, schema, limitMs });
  let on: number | null = null;

  function ask(request: Request, waitMs = limitMs): Extract<Answer, { ok: true }> {
    const answer = client.ask(request, waitMs);
    if (answer.ok) return answer;
    throw openingError(answer.fault, place ?? "");
  }
  const rows = (sql: string, ...values: Value[]): Row[] =>
    ask({ kind: "query", on, sql: toPostgres(sql), values }).rows;
  const script = (sql: string, waitMs?: number): Row[] => ask({ kind: "script", on, sql }, waitMs).rows;

  function hasLock(forMs: number, meanwhile: () => void = () => undefined): boolean {
    const until = performance.now() + forMs;
    while (script(tryLock(schema, host))[0]?.held !== true) {
      if (performance.now() > until) return false;
      meanwhile();
      pause();
    }
    return true;
  }

  function migrate(): void {
    const [layout] = script(beginMigration(schema), MIGRATION_MS);
    script(restOfMigration(parseRow(Layout, layout).number), MIGRATION_MS);
  }

  function raise(): Owned {
    const [raised] = rows(RAISE, host);
    if (raised === undefined)
      throw new HoldfastError("HOST_ENDED", `host ${host} was removed from this store`);
    return parseRow(Owned, raised);
  }

  function own(): Owned {
    let owned: Owned | null = null;
    if (!hasLock(options.takeOver === true ? 0 : OWNED_MS)) {
      if (options.takeOver !== true)
        throw new HoldfastError("STORE_OWNED", `another controller owns the host ${host} of this store`);
      migrate();
      script(endHolders(schema, host));
      // From here on the old owner finds itself fenced, and does not take the lock again.
      owned = raise();
      if (!hasLock(limitMs, () => script(endHolders(schema, host))))
        throw new HoldfastError("STORE_ERROR", `the lock of host ${host} can't be taken from its owner`);
    } else migrate();
    owned ??= raise();
    ask({ kind: "own", owner: { host, fence: owned.fence } });
    return owned;
  }

  function look(): Owned {
    if (rows(HAS_LAYOUT, schema)[0]?.found !== 1)
      throw new HoldfastError("STORE_ERROR", `there is no store in schema ${schema} of ${place}`, {
        details: { missing: schema },
      });
    checkLayout(parseRow(Layout, rows(READ_LAYOUT)[0]).number);
    const [known] = rows(READ_HOST, host);
    return known === undefined ? { fence: 0, leases: null } : parseRow(Owned, known);
  }

  try {
    on = ask({ kind: "connect", limitMs }, limitMs + START_MS).connection;
    const { fence, leases } = isReadOnly || isOperator ? look() : own();
    const held = new Map((leases ?? []).map((lease) => [lease.sandbox, lease.fence]));
    return createDatabase(client, {
      host: isOperator ? null : host,
      fence,
      leases: held,
      isReadOnly,
      limitMs,
    });
  } catch (error) {
    client.close();
    throw error;
  }
}

/** Whether a store could not be read because nobody has opened one there yet. */
export function isMissing(error: unknown): boolean {
  return error instanceof HoldfastError && error.details.missing !== undefined;
}

function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)), 0, 0, POLL_MS);
}
