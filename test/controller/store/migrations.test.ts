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

function layoutOf(database: DatabaseSync): Array<Record<string, unknown>> {
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
    "bridge_lives",
    "budgets",
    "call_sums",
    "forks",
    "inspections",
    "launch_revisions",
    "locator_history",
    "member_events",
    "members",
    "meta",
    "model_callers",
    "model_calls",
    "native_ids",
    "request_chains",
    "reservations",
    "residents",
    "sandboxes",
    "turn_events",
    "turns",
  ]);
});

test("a store of each earlier layout is brought to the newest, with everything that it holds", () => {
  const path = join(temporaryDirectory(), "a.db");
  const fresh = openEmpty();
  migrate(fresh);
  for (let layout = 1; layout < MIGRATIONS.length; layout += 1) {
    const database = openEmpty(`${path}-${layout}`);
    migrate(database, MIGRATIONS.slice(0, layout));
    database.exec(`
      INSERT INTO sandboxes (id, kind, directory, generation, wanted, applied, created_at)
        VALUES ('box', 'docker', '/d', 1, 'running', 7, 1);
      INSERT INTO members (id, sandbox, cli, options, submissions, settled_turns, created_at)
        VALUES ('m-1', 'box', 'opencode', '{}', 1, 0, 1), ('m-2', 'box', 'opencode', '{}', 1, 0, 1);
      INSERT INTO turns (id, member, number, state, text_sha256, text_bytes, settlement, submitted_at, ended_at)
        VALUES ('t-1', 'm-1', 1, 'unknown', 'ab', 2, NULL, 1, 2),
        ('t-2', 'm-2', 1, 'settled', 'ab', 2, NULL, 1, 2)`);
    migrate(database);
    expect(versionOf(database)).toBe(MIGRATIONS.length);
    expect(layoutOf(database).map(({ name }) => name)).toEqual(layoutOf(fresh).map(({ name }) => name));
    expect(database.prepare("SELECT id, applied FROM sandboxes").get()).toEqual({ id: "box", applied: 7 });
    expect(database.prepare("SELECT id, must_prove FROM members ORDER BY id").all()).toEqual([
      // Only the first layout had unknown turns without it.
      { id: "m-1", must_prove: layout === 1 ? "a turn before it is unknown" : null },
      { id: "m-2", must_prove: null },
    ]);
    expect(database.prepare("SELECT id, state FROM turns ORDER BY id").all()).toHaveLength(2);
  }
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
