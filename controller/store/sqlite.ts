/**
 * The store on SQLite: WAL, `synchronous=FULL`, one writer. Opening it takes the owner lock and raises the fence; every
 * writing transaction checks that the fence is still ours.
 */
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type * as z from "zod/mini";
import { HoldfastError, storageFault } from "../../protocol/errors.ts";
import { checkLayout, migrate } from "./migrations.ts";
import { type OwnerLock, takeOwnerLock } from "./owner-lock.ts";
import { parseRow } from "./records.ts";

/** The store's file in its folder. */
export const STORE_FILE = "holdfast.db";

/** In `meta` of a backup: when it was made. The first owner of a copy finds it, and knows that time has gone by without it. */
export const BACKUP_MARK = "backup_at";
/** In `meta` of a store that was brought back: the time of its backup. */
const RESTORED_MARK = "restored_from";
/** Bridges keep the highest fence that they have seen; the owners behind a backup raised it by one each. */
const RESTORED_FENCE_STEP = 1_000_000;

/** Whose records a step changes: what the right to change them is checked by. Null: no sandbox's. */
export type Subject =
  | { sandboxes: readonly string[] }
  | { sandbox: string }
  | { member: string }
  | { turn: string }
  | null;

/** The part of the store that knows SQL but no meaning. */
export interface Database {
  /** Ours: the one that every write is checked against. */
  fence(): number;
  /** Throws FENCED when the store is another controller's by now. */
  checkFence(): void;
  /** Makes the sandbox's this number. Throws FENCED when it is not ours any more. */
  raiseFence(sandbox: string, to: number): void;
  /** What this controller may drive the sandbox with. */
  fenceOf(sandbox: string): number;
  /** The sandbox, which is being made, is this controller's. Inside a transaction. */
  acquire(sandbox: string): void;
  /** A condition on a column with a sandbox's id: it is this host's. */
  mine(column: string): string;
  /**
   * Runs a whole step: fenced, atomic, durable at its return. A step is a function of the database alone: it may run more
   * than once, and nothing of the runs before the last one stays. Throws FENCED when `of` is another controller's.
   */
  write<T>(of: Subject, step: () => T): T;
  run(sql: string, ...values: SQLInputValue[]): number;
  row<S extends z.ZodMiniType>(schema: S, sql: string, ...values: SQLInputValue[]): z.infer<S> | null;
  rows<S extends z.ZodMiniType>(schema: S, sql: string, ...values: SQLInputValue[]): Array<z.infer<S>>;
  close(): void;
}

export interface DatabaseOptions {
  /** Folder of the store; made when it is missing. Owner-only. */
  directory: string;
  /** Without ownership nothing can be written; for commands that only look. */
  readOnly?: boolean;
  /** Takes the store from an owner that does not let go of it; that one is fenced off. */
  takeOver?: boolean;
  /** How long a step waits for another connection's lock, ms; 5000 when missing. Beyond: STORE_ERROR, nothing written. */
  busyMs?: number;
}

export function openDatabase(options: DatabaseOptions): Database {
  const path = join(options.directory, STORE_FILE);
  let lock: OwnerLock | null = null;
  let database: DatabaseSync | null = null;
  try {
    if (!options.readOnly) {
      mkdirSync(options.directory, { recursive: true, mode: 0o700 });
      const takeOver = options.takeOver === true;
      // An owner that froze in the middle of a write would hold ours up, and both would be without the store.
      if (takeOver) checkWritable(path, options.busyMs ?? 5000);
      lock = takeOwnerLock(join(dirname(path), "owner.db"), { takeOver });
    }
    database = new DatabaseSync(path, {
      readOnly: options.readOnly === true,
      timeout: options.busyMs ?? 5000,
    });
    if (options.readOnly) {
      checkLayout(database);
      return wrap(database, currentFence(database), null);
    }
    chmodSync(path, 0o600);
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    migrate(database);
    noteRestore(database);
    return wrap(database, raiseFence(database), lock);
  } catch (cause) {
    database?.close();
    lock?.release();
    if (cause instanceof HoldfastError) throw cause;
    throw storageFault(`the store in ${options.directory} can't be opened`, cause);
  }
}

function checkWritable(path: string, busyMs: number): void {
  if (!existsSync(path)) return;
  const database = new DatabaseSync(path, { timeout: busyMs });
  try {
    database.exec("BEGIN IMMEDIATE; ROLLBACK");
  } finally {
    database.close();
  }
}

/**
 * A store that was brought back from a backup starts above every fence of its lost life. What else its sandboxes are ahead
 * of, they say when they dial.
 */
function noteRestore(database: DatabaseSync): void {
  const isBackup = database.prepare(`SELECT value FROM meta WHERE name = '${BACKUP_MARK}'`).get();
  if (isBackup === undefined) return;
  database.exec(`
    BEGIN IMMEDIATE;
    DELETE FROM meta WHERE name = '${RESTORED_MARK}';
    UPDATE meta SET name = '${RESTORED_MARK}' WHERE name = '${BACKUP_MARK}';
    UPDATE meta SET value = CAST(CAST(value AS INTEGER) + ${RESTORED_FENCE_STEP} AS TEXT) WHERE name = 'fence';
    COMMIT`);
}

function currentFence(database: DatabaseSync): number {
  const row = database.prepare("SELECT value FROM meta WHERE name = 'fence'").get() as { value: string };
  return Number(row.value);
}

function raiseFence(database: DatabaseSync): number {
  const row = database
    .prepare(
      "UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'fence' RETURNING value",
    )
    .get() as { value: string };
  return Number(row.value);
}

function wrap(database: DatabaseSync, firstFence: number, lock: OwnerLock | null): Database {
  let fence = firstFence;
  const statements = new Map<string, StatementSync>();

  function prepared(sql: string): StatementSync {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    const made = database.prepare(sql);
    statements.set(sql, made);
    return made;
  }

  function checkFence(): void {
    const row = prepared("SELECT value FROM meta WHERE name = 'fence'").get() as { value: string };
    if (Number(row.value) !== fence)
      throw new HoldfastError("FENCED", `the store's fence is ${row.value}, ours is ${fence}`);
  }

  /** Whoever owns this store owns all that is in it. */
  function write<T>(_of: Subject, step: () => T): T {
    if (lock === null) throw new TypeError("this store was opened for reading");
    try {
      database.exec("BEGIN IMMEDIATE");
    } catch (cause) {
      throw storageFault("the store can't be written", cause);
    }
    try {
      checkFence();
      const result = step();
      database.exec("COMMIT");
      return result;
    } catch (cause) {
      if (database.isTransaction) database.exec("ROLLBACK");
      if (cause instanceof HoldfastError || cause instanceof TypeError) throw cause;
      throw storageFault("the store can't be written", cause);
    }
  }

  return {
    fence: () => fence,
    fenceOf: () => fence,
    acquire: () => undefined,
    mine: () => "TRUE",
    checkFence: () => read(checkFence),
    raiseFence(_sandbox, to) {
      write(null, () => prepared("UPDATE meta SET value = ? WHERE name = 'fence'").run(String(to)));
      fence = to;
    },
    write,
    run: (sql, ...values) => Number(prepared(sql).run(...values).changes),
    row(schema, sql, ...values) {
      const found = read(() => prepared(sql).get(...values));
      return found === undefined ? null : parseRow(schema, found);
    },
    rows: (schema, sql, ...values) =>
      read(() => prepared(sql).all(...values)).map((found) => parseRow(schema, found)),
    close() {
      if (database.isOpen) database.close();
      lock?.release();
    },
  };
}

function read<T>(look: () => T): T {
  try {
    return look();
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause;
    throw new HoldfastError("STORE_ERROR", "the store can't be read", { cause });
  }
}
