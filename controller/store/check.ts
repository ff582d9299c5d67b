/**
 * Looks a store's file over, without owning or changing it: the file itself, its references, and whether the records
 * say one thing. What a good record is, is in `check-records.ts`.
 */
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import { recordProblems } from "./check-records.ts";
import { layoutOf, MIGRATIONS } from "./migrations.ts";
import { BACKUP_MARK } from "./sqlite.ts";

/** Problems that are told. Beyond: counted. */
const PROBLEMS = 100;
const COUNTED = ["sandboxes", "members", "turns", "turn_events", "launch_revisions", "model_calls"] as const;

export interface StoreCheck {
  /** Of the file; an older one is brought up when it is opened as a store. */
  layout: number;
  /** It is a copy that `backupStore` made, and was not opened as a store yet. */
  isBackup: boolean;
  rows: Record<string, number>;
  /** The first hundred; none means that the store is whole. */
  problems: string[];
  problemCount: number;
}

/** Throws STORE_ERROR when there is no such file or it is no database at all, STORE_NEWER. */
export function checkStore(file: string, onStep: (what: string) => void = () => undefined): StoreCheck {
  if (!existsSync(file)) throw new HoldfastError("STORE_ERROR", `there is no file ${file}`);
  const database = openReadOnly(file);
  try {
    const layout = layoutOf(database);
    const found: StoreCheck = { layout, isBackup: false, rows: {}, problems: [], problemCount: 0 };
    const say = (problem: string) => {
      found.problemCount += 1;
      if (found.problems.length < PROBLEMS) found.problems.push(problem);
    };
    /** A damaged page makes any statement throw: that is what was looked for, and no reason to stop looking. */
    const step = (what: string, look: () => void) => {
      onStep(what);
      try {
        look();
      } catch (error) {
        say(`${what}: ${error instanceof Error ? error.message : String(error)}`);
      }
    };
    // One snapshot for all of it: a controller may be writing.
    database.exec("BEGIN");
    step("the file", () => {
      for (const { integrity_check } of database.prepare(`PRAGMA integrity_check(${PROBLEMS})`).all())
        if (integrity_check !== "ok") say(`the file: ${String(integrity_check)}`);
    });
    step("references", () => {
      for (const { table, rowid, parent } of database.prepare("PRAGMA foreign_key_check").all())
        say(
          `references: row ${String(rowid)} of ${String(table)} names a row of ${String(parent)} that is not there`,
        );
    });
    step("the layout", () => {
      found.isBackup =
        database.prepare("SELECT value FROM meta WHERE name = ?").get(BACKUP_MARK) !== undefined;
    });
    if (layout < MIGRATIONS.length) return found;
    for (const name of COUNTED) {
      step(name, () => {
        found.rows[name] = Number(database.prepare(`SELECT count(*) AS n FROM ${name}`).get()?.n);
      });
    }
    for (const { what, look } of recordProblems(database)) {
      step(what, () => {
        for (const problem of look()) say(`${what}: ${problem}`);
      });
    }
    return found;
  } finally {
    database.close();
  }
}

function openReadOnly(file: string): DatabaseSync {
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
    database.prepare("PRAGMA user_version").get();
    return database;
  } catch (cause) {
    database?.close();
    throw new HoldfastError("STORE_ERROR", `${file} can't be read as a store`, { cause });
  }
}
