// A step's transaction against a real server that is killed, frozen, cut and contended.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setImmediate as turnOfLoop } from "node:timers/promises";
import pg from "pg";
import { afterAll, expect, onTestFinished, test } from "vitest";
import * as z from "zod/mini";
import { openPostgres, type PostgresOptions } from "../../../../controller/store/postgres/open-postgres.ts";
import type { Database } from "../../../../controller/store/sqlite.ts";
import { startPostgres } from "../../../support/postgres.ts";
import { until } from "../../../support/until.ts";

const server = await startPostgres();
afterAll(() => server.remove(), 60_000);

let count = 0;

function open(options: Partial<PostgresOptions> = {}) {
  count += 1;
  const schema = options.schema ?? `x_${count}`;
  const db = openPostgres({ url: server.url(), schema, ...options });
  onTestFinished(() => db.close());
  return { db, schema };
}

const note = (db: Database, what: string) => db.run("INSERT INTO audit VALUES (1, ?, '', '')", what);
const noted = async (schema: string) =>
  (await server.look("SELECT what FROM audit ORDER BY what", [], undefined, schema)).map(({ what }) => what);
const pidOf = (db: Database) => db.row(z.object({ pid: z.number() }), "SELECT pg_backend_pid() AS pid")?.pid;

/** A connection of somebody else, who acts while this thread sleeps: what it is sent is all there before that. */
async function stranger(schema: string) {
  const client = new pg.Client({ connectionString: server.url(), options: `-c search_path=${schema}` });
  client.on("error", () => undefined);
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return {
    query: (sql: string) => client.query(sql),
    /** Its answer is nobody's: the test sleeps while it works. */
    begin: (sql: string) => void client.query(sql).catch(() => undefined),
  };
}

test("a sandbox's fence that was raised is ours behind a lost connection too; one that somebody else raised is not", async () => {
  const { db, schema } = open();
  db.write(null, () => {
    db.run("INSERT INTO sandboxes VALUES ('box', 'docker', '/d', 1, NULL, 'stopped', NULL, NULL, 0, 1)");
    db.acquire("box");
  });
  db.raiseFence("box", 41);
  expect(db.fenceOf("box")).toBe(41);
  const lose = async () => server.look("SELECT pg_terminate_backend($1)", [pidOf(db)]);
  await lose();
  db.write({ sandbox: "box" }, () => note(db, "a"));
  const fenced = expect.objectContaining({ code: "FENCED" });
  await server.look("UPDATE leases SET fence = 42", [], undefined, schema);
  expect(() => db.write({ sandbox: "box" }, () => note(db, "b"))).toThrow(fenced);
  expect(() => db.raiseFence("box", 50)).toThrow(fenced);
  db.write(null, () => note(db, "c"));
  await server.look("UPDATE hosts SET fence = 99", [], undefined, schema);
  expect(() => db.checkFence()).toThrow(fenced);
  expect(() => db.write(null, () => note(db, "d"))).toThrow(fenced);
  await lose();
  // Not even the lock is taken again.
  expect(() => db.write(null, () => note(db, "e"))).toThrow(fenced);
  expect(() => db.checkFence()).toThrow(fenced);
  expect(await noted(schema)).toEqual(["a", "c"]);
});

test("what a step throws undoes it", async () => {
  const { db, schema } = open();
  const fail = () =>
    db.write(null, () => {
      note(db, "a");
      throw new TypeError("no");
    });
  expect(fail).toThrow(TypeError);
  expect(() => db.write(null, () => db.run("INSERT INTO nowhere VALUES (1)"))).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
  // A failure that a step swallows is no success either.
  const swallow = () =>
    db.write(null, () => {
      note(db, "b");
      try {
        db.run("INSERT INTO nowhere VALUES (1)");
      } catch {
        // As a careless step would.
      }
    });
  expect(swallow).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  db.write(null, () => note(db, "c"));
  expect(await noted(schema)).toEqual(["c"]);
});

test("a connection that ends between two steps costs nothing, and one that ends in a step has it run once more", async () => {
  const { db, schema } = open();
  await server.look("SELECT pg_terminate_backend($1)", [pidOf(db)]);
  db.write(null, () => note(db, "between"));
  await server.look("SELECT pg_terminate_backend($1)", [pidOf(db)]);
  expect(db.rows(z.object({ what: z.string() }), "SELECT what FROM audit")).toHaveLength(1);
  let runs = 0;
  db.write(null, () => {
    runs += 1;
    note(db, "in the middle");
    if (runs === 1) expect(() => db.run(`SELECT pg_terminate_backend(pg_backend_pid())`)).toThrow();
    note(db, "behind");
  });
  expect(runs).toBe(2);
  expect(await noted(schema)).toEqual(["behind", "between", "in the middle"]);
});

test("a connection that ends during the commit leaves a question, which is said and not answered by a second try", async () => {
  const { db, schema } = open();
  const other = await stranger(schema);
  await other.query(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`);
  let runs = 0;
  other.begin(`SELECT pg_sleep(0.7); SELECT pg_terminate_backend(${pidOf(db)})`);
  const write = () =>
    db.write(null, () => {
      runs += 1;
      note(db, "a");
    });
  expect(write).toThrow(
    expect.objectContaining({ code: "STORE_ERROR", message: expect.stringContaining("is not known") }),
  );
  expect(runs).toBe(1);
  await other.query("DROP TRIGGER slow ON audit");
  db.write(null, () => note(db, "b"));
  expect(await noted(schema)).toEqual(["b"]);
});

test("a deadlock with another controller ends, and the step that lost it runs again", async () => {
  const { db, schema } = open();
  db.write(null, () => db.run("INSERT INTO meta VALUES ('one', '0'), ('two', '0')"));
  const other = await stranger(schema);
  // Ours is to be the one that is given up.
  await other.query(
    "SET deadlock_timeout = '30s'; BEGIN; UPDATE meta SET value = 'other' WHERE name = 'two'",
  );
  let runs = 0;
  db.write(null, () => {
    runs += 1;
    db.run("UPDATE meta SET value = value || 'x' WHERE name = 'one'");
    if (runs === 1) other.begin("UPDATE meta SET value = value || 'y' WHERE name = 'one'; COMMIT");
    db.run("UPDATE meta SET value = value || 'x' WHERE name = 'two'");
  });
  expect(runs).toBe(2);
  const rows = await server.look(
    "SELECT value FROM meta WHERE name <> 'id' ORDER BY name",
    [],
    undefined,
    schema,
  );
  expect(rows).toEqual([{ value: "0yx" }, { value: "otherx" }]);
});

test("what another controller writes first is there when the step runs again", async () => {
  const { db, schema } = open();
  const other = await stranger(schema);
  await other.query("BEGIN; INSERT INTO meta VALUES ('one', 'other')");
  other.begin("SELECT pg_sleep(0.5); COMMIT");
  const found = db.write(null, () => {
    const known = db.row(z.object({ value: z.string() }), "SELECT value FROM meta WHERE name = 'one'");
    if (known === null) db.run("INSERT INTO meta VALUES ('one', 'ours')");
    return known?.value ?? "ours";
  });
  expect(found).toBe("other");
});

test("a server that freezes costs one limit, then nothing, and is used again when it thaws", async () => {
  const { db, schema } = open({ limitMs: 700 });
  server.freeze();
  const timed = () => {
    const before = performance.now();
    expect(() => db.write(null, () => note(db, "frozen"))).toThrow(
      expect.objectContaining({ code: "STORE_ERROR" }),
    );
    return performance.now() - before;
  };
  try {
    expect(timed()).toBeLessThan(3000);
    for (let at = 0; at < 5; at += 1) expect(timed()).toBeLessThan(400);
    expect(() => db.checkFence()).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  } finally {
    server.thaw();
  }
  await until("a write", () => attempt(() => db.write(null, () => note(db, "thawed"))), 20_000);
  expect(await noted(schema)).toEqual(["thawed"]);
  db.checkFence();
}, 60_000);

test("a server that is killed under a load of writes has lost none that was acknowledged, and doubled none", async () => {
  const { db, schema } = open({ limitMs: 2000 });
  const acknowledged = new Set<string>();
  const unanswered = new Set<string>();
  let number = 0;
  for (let life = 0; life < 3; life += 1) {
    const pids = server.processes().join(" ");
    // By somebody else, so that it comes in the middle of whatever runs.
    const killer = spawn("sh", ["-c", `sleep 0.${3 + life}; kill -9 ${pids}`], { stdio: "ignore" });
    const isDead = once(killer, "exit");
    let failures = 0;
    while (failures < 3) {
      number += 1;
      const what = `w-${number}`;
      try {
        db.write(null, () => note(db, what));
        acknowledged.add(what);
      } catch (error) {
        failures += 1;
        expect(error).toMatchObject({ code: "STORE_ERROR" });
        if (String(error).includes("is not known")) unanswered.add(what);
      }
      await turnOfLoop();
    }
    await isDead;
    await server.kill();
    await server.start();
    await until("a write", () => attempt(() => db.write(null, () => note(db, `life-${life}`))), 20_000);
    acknowledged.add(`life-${life}`);
  }
  const kept = (await noted(schema)).map(String);
  expect(new Set(kept).size).toBe(kept.length);
  expect([...acknowledged].filter((what) => !kept.includes(what))).toEqual([]);
  expect(kept.filter((what) => !acknowledged.has(what) && !unanswered.has(what))).toEqual([]);
  expect(acknowledged.size).toBeGreaterThan(50);
}, 120_000);

function attempt(act: () => void): boolean {
  try {
    act();
    return true;
  } catch {
    return false;
  }
}
