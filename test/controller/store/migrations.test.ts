import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { MIGRATIONS, migrate } from "../../../controller/store/migrations.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

function openEmpty(path = ":memory:"): DatabaseSync {
  const database = new DatabaseSync(path);
  onTestFinished(() => {
    if (database.isOpen) database.close();
  });
  return database;
}

function layoutOf(database: DatabaseSync): unknown[] {
  return database.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").all();
}

const metaOf = (database: DatabaseSync): Record<string, unknown> =>
  Object.fromEntries(
    database
      .prepare("SELECT name, value FROM meta")
      .all()
      .map((row) => [row.name, row.value]),
  );
const versionOf = (database: DatabaseSync) => database.prepare("PRAGMA user_version").get()?.user_version;

test("an empty database gets the newest layout, a fence of 0 and an id of its own", () => {
  const database = openEmpty();
  migrate(database);
  expect(versionOf(database)).toBe(MIGRATIONS.length);
  const { fence, id, ...others } = metaOf(database);
  expect(fence).toBe("0");
  expect(id).toMatch(/^[0-9a-f]{32}$/);
  expect(others).toEqual({});
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
  expect(tables.map(({ name }) => name)).toEqual([
    "attestations",
    "audit",
    "launch_revisions",
    "locator_history",
    "members",
    "meta",
    "native_ids",
    "residents",
    "sandboxes",
    "turn_events",
    "turns",
  ]);
});

test("a second run changes nothing, also on a database that was closed in between", () => {
  const path = join(temporaryDirectory(), "a.db");
  const first = openEmpty(path);
  migrate(first);
  first.exec("UPDATE meta SET value = '41' WHERE name = 'fence'");
  const layout = layoutOf(first);
  const meta = metaOf(first);
  migrate(first);
  first.close();
  const second = openEmpty(path);
  migrate(second);
  expect(layoutOf(second)).toEqual(layout);
  expect(metaOf(second)).toEqual(meta);
  expect(meta.fence).toBe("41");
});

test("only the steps that are missing are applied, in their order", () => {
  const database = openEmpty();
  const steps = ["CREATE TABLE a (x)", "INSERT INTO a VALUES (1)", "INSERT INTO a SELECT x + 1 FROM a"];
  migrate(database, steps.slice(0, 2));
  expect(versionOf(database)).toBe(2);
  migrate(database, steps);
  expect(versionOf(database)).toBe(3);
  expect(database.prepare("SELECT x FROM a ORDER BY x").all()).toEqual([{ x: 1 }, { x: 2 }]);
});

test("a database ahead of this version is refused and left as it is", () => {
  const database = openEmpty();
  database.exec(`PRAGMA user_version = ${MIGRATIONS.length + 1}`);
  expect(() => migrate(database)).toThrow(expect.objectContaining({ code: "STORE_NEWER" }));
  expect(layoutOf(database)).toEqual([]);
  expect(versionOf(database)).toBe(MIGRATIONS.length + 1);
});

test("a step that fails is rolled back whole, and those before it stay", () => {
  const database = openEmpty();
  const steps = ["CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)"];
  expect(() => migrate(database, steps)).toThrow(/nowhere/);
  expect(versionOf(database)).toBe(1);
  expect(database.isTransaction).toBe(false);
  expect(database.prepare("SELECT name FROM sqlite_schema").all()).toEqual([{ name: "a" }]);
  migrate(database, ["CREATE TABLE a (x)", "CREATE TABLE b (x)"]);
  expect(versionOf(database)).toBe(2);
});

test("a step whose failure ended the transaction by itself tells its own error", () => {
  const database = openEmpty();
  const steps = ["CREATE TABLE a (x UNIQUE); INSERT INTO a VALUES (1); INSERT OR ROLLBACK INTO a VALUES (1)"];
  expect(() => migrate(database, steps)).toThrow(/UNIQUE constraint failed/);
  expect(layoutOf(database)).toEqual([]);
});

test("rows of the wrong type are refused by the layout itself", () => {
  const database = openEmpty();
  migrate(database);
  expect(() => database.exec("INSERT INTO audit VALUES ('not a number', 'a', 'b', 'c')")).toThrow(/REAL/);
});
