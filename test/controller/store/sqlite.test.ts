import { readdirSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import * as z from "zod/mini";
import { MIGRATIONS } from "../../../controller/store/migrations.ts";
import { type Database, type DatabaseOptions, openDatabase } from "../../../controller/store/sqlite.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const Audit = z.object({ what: z.string(), detail: z.string() });
const INSERT = "INSERT INTO audit VALUES (1, ?, 'subject', ?)";
const SELECT = "SELECT what, detail FROM audit ORDER BY what";

function open(directory: string, options: Partial<DatabaseOptions> = {}): Database {
  const database = openDatabase({ directory, ...options });
  onTestFinished(() => database.close());
  return database;
}

/** The database as somebody else's connection sees it. */
function aside<T>(directory: string, look: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(join(directory, "holdfast.db"));
  try {
    return look(database);
  } finally {
    database.close();
  }
}

function openFilesBelow(directory: string): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(directory) ? [path] : [];
    } catch {
      // The listing's own descriptor is gone by now.
      return [];
    }
  });
}

test("folder and files of a new store are for their owner alone", () => {
  const directory = join(temporaryDirectory(), "a", "store");
  const database = open(directory);
  database.write(null, () => database.run(INSERT, "a", ""));
  expect(statSync(directory).mode & 0o777).toBe(0o700);
  const modes = readdirSync(directory).map((name) => [name, statSync(join(directory, name)).mode & 0o777]);
  expect(modes).toEqual([
    ["holdfast.db", 0o600],
    ["holdfast.db-shm", 0o600],
    ["holdfast.db-wal", 0o600],
    ["owner.db", 0o600],
    ["owner.db-journal", 0o600],
  ]);
});

test("it writes ahead and syncs at every commit", () => {
  const database = open(temporaryDirectory());
  expect(database.row(z.object({ journal_mode: z.string() }), "PRAGMA journal_mode")?.journal_mode).toBe(
    "wal",
  );
  expect(database.row(z.object({ synchronous: z.number() }), "PRAGMA synchronous")?.synchronous).toBe(2);
  expect(database.row(z.object({ foreign_keys: z.number() }), "PRAGMA foreign_keys")?.foreign_keys).toBe(1);
});

test("a step is seen by another connection as soon as it returned, and not before", () => {
  const directory = temporaryDirectory();
  const database = open(directory);
  const count = () =>
    aside(directory, (other) => other.prepare("SELECT count(*) AS n FROM audit").get()?.n as number);
  database.write(null, () => {
    database.run(INSERT, "a", "");
    expect(count()).toBe(0);
  });
  expect(count()).toBe(1);
});

test("a step that throws leaves nothing behind, and the next one works", () => {
  const database = open(temporaryDirectory());
  const own = new HoldfastError("MEMBER_BUSY");
  const mistake = new TypeError("a mistake of the programmer");
  const throwing = (error: Error) => () =>
    database.write(null, () => {
      database.run(INSERT, "lost", "");
      throw error;
    });
  expect(throwing(own)).toThrow(own);
  expect(throwing(mistake)).toThrow(mistake);
  expect(throwing(new Error("disk"))).toThrow(
    expect.objectContaining({ code: "STORE_ERROR", cause: expect.objectContaining({ message: "disk" }) }),
  );
  expect(() => database.write(null, () => database.run("INSERT INTO nowhere VALUES (1)"))).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
  database.write(null, () => database.run(INSERT, "kept", ""));
  expect(database.rows(Audit, SELECT)).toEqual([{ what: "kept", detail: "" }]);
});

test("each opening raises the fence by one", () => {
  const directory = temporaryDirectory();
  const fences = [1, 2, 3].map(() => {
    const database = openDatabase({ directory });
    database.close();
    return database.fence();
  });
  expect(fences).toEqual([1, 2, 3]);
});

test("a stale owner is fenced off: its step does not even run", () => {
  const directory = temporaryDirectory();
  const database = open(directory);
  aside(directory, (other) => other.exec("UPDATE meta SET value = '99' WHERE name = 'fence'"));
  let hasRun = false;
  expect(() =>
    database.write(null, () => {
      hasRun = true;
    }),
  ).toThrow(expect.objectContaining({ code: "FENCED" }));
  expect(hasRun).toBe(false);
});

test("the owner raises the fence, and goes on with it; a stale one raises nothing", () => {
  const directory = temporaryDirectory();
  const database = open(directory);
  database.raiseFence("box", 7);
  expect(database.fence()).toBe(7);
  database.write(null, () => database.run(INSERT, "a", ""));
  aside(directory, (other) => other.exec("UPDATE meta SET value = '99' WHERE name = 'fence'"));
  expect(() => database.raiseFence("box", 100)).toThrow(expect.objectContaining({ code: "FENCED" }));
  expect(database.fence()).toBe(7);
});

test("a second owner is refused, and a failed opening gives the lock back", () => {
  const directory = temporaryDirectory();
  const first = openDatabase({ directory });
  expect(() => openDatabase({ directory })).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
  first.close();
  aside(directory, (other) => other.exec("PRAGMA user_version = 999"));
  expect(() => openDatabase({ directory })).toThrow(expect.objectContaining({ code: "STORE_NEWER" }));
  expect(openFilesBelow(directory)).toEqual([]);
  aside(directory, (other) => other.exec(`PRAGMA user_version = ${MIGRATIONS.length}`));
  open(directory);
});

test("told to, it takes the store over: the old owner writes nothing any more, and says so", () => {
  const directory = temporaryDirectory();
  const old = open(directory);
  old.write(null, () => old.run(INSERT, "before", ""));
  const next = open(directory, { takeOver: true });
  expect(next.fence()).toBe(old.fence() + 1);
  const fenced = expect.objectContaining({ code: "FENCED" });
  expect(() => old.checkFence()).toThrow(fenced);
  expect(() => old.write(null, () => old.run(INSERT, "after", ""))).toThrow(fenced);
  expect(() => old.raiseFence("box", 99)).toThrow(fenced);
  next.checkFence();
  next.write(null, () => next.run(INSERT, "next", ""));
  expect(next.rows(Audit, SELECT).map(({ what }) => what)).toEqual(["before", "next"]);
  old.close();
  expect(() => openDatabase({ directory })).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
});

test("one that hangs in the middle of a write is not taken over: nothing changes, and it goes on", () => {
  const directory = temporaryDirectory();
  const old = open(directory);
  old.write(null, () => {
    expect(() => openDatabase({ directory, takeOver: true, busyMs: 20 })).toThrow(
      expect.objectContaining({ code: "STORE_ERROR" }),
    );
    old.run(INSERT, "a", "");
  });
  old.checkFence();
  expect(() => openDatabase({ directory })).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
});

test("a file that is no database is an error of the store, and nothing of it stays open", () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "holdfast.db"), "no database, and long enough to be looked at. ".repeat(50));
  expect(() => openDatabase({ directory })).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  expect(openFilesBelow(directory)).toEqual([]);
});

test("a reader needs no lock, sees what the owner wrote, and can write nothing", () => {
  const directory = temporaryDirectory();
  const owner = open(directory);
  owner.write(null, () => owner.run(INSERT, "a", "b"));
  const reader = open(directory, { readOnly: true });
  expect(reader.rows(Audit, SELECT)).toEqual([{ what: "a", detail: "b" }]);
  expect(() => reader.write(null, () => undefined)).toThrow(TypeError);
  expect(() => reader.run(INSERT, "c", "")).toThrow(/readonly/);
});

test("a reader of no store, and of one that is newer or not laid out yet, is refused with a code", () => {
  const directory = temporaryDirectory();
  const read = () => openDatabase({ directory, readOnly: true });
  expect(read).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  expect(readdirSync(directory)).toEqual([]);
  aside(directory, (other) => other.exec("PRAGMA user_version = 999"));
  expect(read).toThrow(expect.objectContaining({ code: "STORE_NEWER" }));
  aside(directory, (other) => other.exec("PRAGMA user_version = 0"));
  expect(read).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  expect(openFilesBelow(directory)).toEqual([]);
});

test("a record that does not fit names its column and nothing of its content", () => {
  const database = open(temporaryDirectory());
  database.write(null, () => database.run(INSERT, "secret", "secret"));
  const Narrow = z.object({ what: z.number(), detail: z.string() });
  expect(() => database.rows(Narrow, SELECT)).toThrow(
    expect.objectContaining({ code: "STORE_ERROR", message: "a record of the store can't be read (what)" }),
  );
  expect(database.row(Narrow, "SELECT * FROM audit WHERE what = 'no'")).toBeNull();
});

test("a reading that fails is an error of the store", () => {
  const database = open(temporaryDirectory());
  for (const read of [database.row, database.rows])
    expect(() => read(Audit, "SELECT what FROM nowhere")).toThrow(
      expect.objectContaining({ code: "STORE_ERROR" }),
    );
  database.close();
  expect(() => database.rows(Audit, SELECT)).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  expect(() => database.write(null, () => undefined)).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
});

test("closing twice does nothing more", () => {
  const directory = temporaryDirectory();
  const database = openDatabase({ directory });
  database.close();
  database.close();
  expect(openFilesBelow(directory)).toEqual([]);
});

test("a write that another connection holds up for too long is refused, and its step does not run", () => {
  const directory = temporaryDirectory();
  const database = open(directory, { busyMs: 20 });
  aside(directory, (other) => {
    other.exec("BEGIN IMMEDIATE");
    expect(() => database.write(null, () => database.run(INSERT, "a", ""))).toThrow(
      expect.objectContaining({ code: "STORE_ERROR" }),
    );
  });
  expect(database.rows(Audit, SELECT)).toEqual([]);
});
