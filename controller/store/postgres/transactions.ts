/**
 * The store's `Database` on PostgreSQL. A step is one transaction under the host's fence. What clashes with another
 * controller is tried again; a connection that is lost before the commit was sent has left nothing, and the step runs once
 * more on a fresh one; one that is lost during the commit leaves a question that trying again does not answer.
 *
 *   BEGIN, fence FOR SHARE ─▶ statements of the step ─▶ COMMIT
 *   └── lost: again, once, on a fresh connection ──┘     └── lost: STORE_ERROR, nobody knows whether it was written
 */
import * as z from "zod/mini";
import { HoldfastError, storageFault } from "../../../protocol/errors.ts";
import { parseRow } from "../records.ts";
import type { Database, Subject } from "../sqlite.ts";
import { literal, toPostgres, toValue } from "./dialect.ts";
import { type Fault, type Phase, PostgresFault, RECONNECT_MS, retryOf, storeError } from "./faults.ts";
import { ACQUIRE, BEGIN, beginFenced, READ_OWNED, SET_LEASE } from "./fence.ts";
import type { Answer, Request, Row } from "./messages.ts";
import type { SyncClient } from "./sync-client.ts";

/** Of one step that clashes with others. */
const TRIES = 5;
/** For the way to the connection's thread and back, ms. */
const SLACK_MS = 500;

/** A database of several hosts. */
export interface SharedDatabase extends Database {
  /** Ours; null for somebody who only moves hosts. */
  readonly host: string | null;
  /** A step that no fence of ours is checked for; it locks the rows that it decides by. */
  writeOver<T>(step: () => T): T;
  /** The sandbox is driven with this fence from here on. */
  held(sandbox: string, fence: number): void;
}

const FenceRow = z.object({ fence: z.number() });
const Lease = z.object({
  sandbox: z.string(),
  host: z.string(),
  fence: z.number(),
  released_to: z.nullable(z.string()),
});
const Begun = z.object({ fence: z.nullable(z.number()), leases: z.nullable(z.array(Lease)) });

type Good = Extract<Answer, { ok: true }>;
type Tried<T> = { isDone: true; result: T } | { isDone: false; fault: Fault; phase: Phase };

export function createDatabase(
  client: SyncClient,
  options: {
    /** Null for somebody who owns none. */
    host: string | null;
    fence: number;
    /** Of the sandboxes that this host had at the opening. */
    leases: ReadonlyMap<string, number>;
    isReadOnly: boolean;
    limitMs: number;
  },
): SharedDatabase {
  const { host, fence, isReadOnly, limitMs } = options;
  const held = new Map(options.leases);
  /** The connection of the step that runs, or null. */
  let on: number | null = null;
  const translated = new Map<string, string>();

  function ask(request: Request): Good {
    const answer = client.ask(request, limitMs);
    if (answer.ok) return answer;
    throw new PostgresFault(answer.fault);
  }

  function query(sql: string, values: readonly unknown[]): Good {
    let text = translated.get(sql);
    if (text === undefined) {
      text = toPostgres(sql);
      translated.set(sql, text);
    }
    return ask({ kind: "query", on, sql: text, values: values.map(toValue) });
  }

  /** Null behind a fresh connection; else why there is none, which may be that another controller has the host. */
  function reconnect(): Fault | null {
    const answer = client.ask({ kind: "connect", limitMs: RECONNECT_MS }, RECONNECT_MS + SLACK_MS);
    return answer.ok ? null : answer.fault;
  }

  /** Looks change nothing, so that one whose connection was lost is repeated. */
  function read(sql: string, values: readonly unknown[]): Row[] {
    if (on !== null) return query(sql, values).rows;
    for (let isAgain = false; ; isAgain = true) {
      try {
        return query(sql, values).rows;
      } catch (cause) {
        if (!(cause instanceof PostgresFault)) throw cause;
        const isLost = retryOf(cause.fault, "before commit") === "reconnect";
        const fault = isLost && !isAgain ? reconnect() : cause.fault;
        if (fault !== null) throw storeError(fault, "the store can't be read");
      }
    }
  }

  function compareFence(found: unknown): void {
    if (found !== fence)
      throw new HoldfastError("FENCED", `the host's fence is ${String(found)}, ours is ${fence}`);
  }

  function compareLease({
    sandbox,
    host: holder,
    fence: found,
    released_to: releasedTo,
  }: z.infer<typeof Lease>): void {
    const ours = held.get(sandbox);
    if (holder !== host) throw new HoldfastError("FENCED", `sandbox ${sandbox} is host ${holder}'s`);
    if (releasedTo !== null)
      throw new HoldfastError("FENCED", `sandbox ${sandbox} was let go of for host ${releasedTo}`);
    if (found !== ours)
      throw new HoldfastError(
        "FENCED",
        `the fence of sandbox ${sandbox} is ${found}, ours is ${ours ?? "none"}`,
      );
  }

  function begin(of: Subject | "over"): void {
    const sql = of === "over" || host === null ? BEGIN : beginFenced(host, of);
    const begun = ask({ kind: "script", on: null, sql });
    on = begun.connection;
    if (of === "over") return;
    const { fence: found, leases } = parseRow(Begun, begun.rows[0]);
    compareFence(found);
    for (const lease of leases ?? []) compareLease(lease);
  }

  function tryOnce<T>(of: Subject | "over", step: () => T): Tried<T> {
    let phase: Phase = "before commit";
    try {
      begin(of);
      const result = step();
      phase = "commit";
      const { command } = ask({ kind: "script", on, sql: "COMMIT" });
      // The server's answer to the commit of a transaction in which a statement had failed.
      if (command !== "COMMIT")
        throw new PostgresFault({
          kind: "sql",
          code: "25P02",
          message: "a statement of the step had failed",
        });
      return { isDone: true, result };
    } catch (cause) {
      // A statement that failed leaves its transaction open; one that began no transaction only gets a warning.
      if (phase === "before commit") client.ask({ kind: "script", on, sql: "ROLLBACK" }, limitMs);
      if (cause instanceof PostgresFault) return { isDone: false, fault: cause.fault, phase };
      if (cause instanceof HoldfastError || cause instanceof TypeError) throw cause;
      throw storageFault("the store can't be written", cause);
    } finally {
      on = null;
    }
  }

  function write<T>(of: Subject | "over", step: () => T): T {
    if (isReadOnly || (host === null && of !== "over"))
      throw new TypeError("this store was opened for reading");
    if (on !== null) throw new TypeError("a step can't begin inside of another one");
    let hasReconnected = false;
    for (let tries = 1; ; tries += 1) {
      const tried = tryOnce(of, step);
      if (tried.isDone) return tried.result;
      const { fault, phase } = tried;
      const next = retryOf(fault, phase);
      if (next === "again" && tries < TRIES) continue;
      if (next !== "reconnect" || hasReconnected) throw writeError(fault, phase);
      const problem = reconnect();
      if (problem !== null) throw writeError(problem, "before commit");
      hasReconnected = true;
    }
  }

  return {
    host,
    fence: () => fence,
    fenceOf: (sandbox: string) => held.get(sandbox) ?? 0,
    held: (sandbox: string, its: number) => void held.set(sandbox, its),
    checkFence() {
      const [found] = read(READ_OWNED, [host]);
      compareFence(found?.fence);
      if (found?.is_alive !== true)
        throw new HoldfastError("LEASE_LOST", `the lease of host ${host} was not renewed in time`);
    },
    raiseFence(sandbox: string, to: number) {
      const raised = write({ sandbox }, () => query(SET_LEASE, [sandbox, to]).rows[0]);
      held.set(sandbox, parseRow(FenceRow, raised).fence);
    },
    acquire(sandbox: string) {
      held.set(sandbox, parseRow(FenceRow, query(ACQUIRE, [sandbox, host]).rows[0]).fence);
    },
    mine: (column: string) =>
      host === null
        ? "TRUE"
        : `${column} IN (SELECT sandbox FROM leases WHERE host = ${literal(host)} AND released_to IS NULL)`,
    write: <T>(of: Subject, step: () => T) => write(of, step),
    writeOver: <T>(step: () => T) => write("over", step),
    run: (sql, ...values) => query(sql, values).changes,
    row(schema: z.ZodMiniType, sql: string, ...values: unknown[]) {
      const [found] = read(sql, values);
      return found === undefined ? null : parseRow(schema, found);
    },
    rows: (schema: z.ZodMiniType, sql: string, ...values: unknown[]) =>
      read(sql, values).map((found) => parseRow(schema, found)),
    close: () => client.close(),
  } as SharedDatabase;
}

function writeError(fault: Fault, phase: Phase): HoldfastError {
  const isOpen = phase === "commit" && (fault.kind === "lost" || fault.kind === "timeout");
  return storeError(
    fault,
    isOpen ? "whether the store was written is not known" : "the store can't be written",
  );
}
