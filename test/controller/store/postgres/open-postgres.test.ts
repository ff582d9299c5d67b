// Opening a store in a real server: who may, who may not, several at once, and what is said when it fails.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { inspect } from "node:util";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { openPostgres, type PostgresOptions } from "../../../../controller/store/postgres/open-postgres.ts";
import type { Database } from "../../../../controller/store/sqlite.ts";
import { PASSWORD, startPostgres } from "../../../support/postgres.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);

const MODULE = new URL("../../../../controller/store/postgres/open-postgres.ts", import.meta.url).href;
let count = 0;

function freshSchema(): string {
  count += 1;
  return `o_${count}`;
}

function open(options: Partial<PostgresOptions>): Database {
  const db = openPostgres({ url: server.url(), ...options });
  onTestFinished(() => db.close());
  return db;
}

/** A program of its own that opens the store, says its fence, and does what is asked then. */
function opener(options: PostgresOptions, then: string) {
  const code = `import { openPostgres } from ${JSON.stringify(MODULE)};
    const db = openPostgres(${JSON.stringify(options)});
    console.log("fence " + db.fence());
    ${then}`;
  return spawn(process.execPath, ["--input-type=module", "-e", code], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}

function fault(options: Partial<PostgresOptions>) {
  try {
    open(options);
  } catch (error) {
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("SECRET");
    expect(inspect(error, { depth: 10 })).not.toContain(PASSWORD);
    return error as { code: string; message: string };
  }
  throw new Error("it was opened");
}

test("each opening raises the fence; a second one of the same host is refused, of another is not", () => {
  const schema = freshSchema();
  const first = open({ schema });
  expect(first.fence()).toBe(1);
  expect(fault({ schema })).toMatchObject({ code: "STORE_OWNED" });
  expect(open({ schema, host: "other" }).fence()).toBe(2);
  first.close();
  expect(open({ schema }).fence()).toBe(3);
});

test("without ownership it is read and not written, and raises nothing", () => {
  const schema = freshSchema();
  expect(fault({ schema, readOnly: true }).message).toContain("there is no store");
  const owner = open({ schema });
  const reader = open({ schema, readOnly: true });
  expect(reader.fence()).toBe(1);
  expect(() => reader.write(null, () => undefined)).toThrow(TypeError);
  owner.checkFence();
});

test("a controller that was killed leaves a host that the next one takes", async () => {
  const schema = freshSchema();
  const child = opener({ url: server.url(), schema }, "setInterval(() => db.checkFence(), 1000);");
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(open({ schema }).fence()).toBe(2);
}, 60_000);

test("a controller that is frozen is taken over: it writes nothing any more, and says why", async () => {
  const schema = freshSchema();
  const then = `setInterval(() => {
    try { db.write(null, () => db.run("INSERT INTO audit VALUES (1, 'old', '', '')")); } catch (error) { console.log(error.code); db.close(); process.exit(); }
  }, 20);`;
  const child = opener({ url: server.url(), schema }, then);
  let said = "";
  child.stdout.on("data", (chunk) => {
    said += chunk;
  });
  await expect.poll(() => said, { timeout: 15_000 }).toContain("fence 1");
  child.kill("SIGSTOP");
  const taken = open({ schema, takeOver: true });
  expect(taken.fence()).toBe(2);
  const lines = () => server.look("SELECT count(*)::int AS n FROM audit", [], undefined, schema);
  const before = await lines();
  child.kill("SIGCONT");
  await once(child, "exit");
  expect(said).toContain("FENCED");
  expect(await lines()).toEqual(before);
  taken.write(null, () => taken.run("INSERT INTO audit VALUES (1, 'new', '', '')"));
}, 60_000);

test("several controllers that start at once on an empty database all get the one layout", async () => {
  await server.look("CREATE DATABASE crowd");
  const url = server.url("crowd");
  const children = ["a", "b", "c", "d", "e"].map((host) => opener({ url, host }, "db.close();"));
  const ends = await Promise.all(children.map((child) => once(child, "exit")));
  expect(ends.map(([code]) => code as number)).toEqual([0, 0, 0, 0, 0]);
  expect(await server.look("SELECT number::int FROM layout", [], "crowd")).toEqual([{ number: 1 }]);
  expect(await server.look("SELECT DISTINCT fence FROM hosts", [], "crowd")).toHaveLength(5);
}, 60_000);

test("a layout that is ahead is left as it is", async () => {
  const schema = freshSchema();
  open({ schema }).close();
  await server.look("UPDATE layout SET number = 99", [], undefined, schema);
  expect(fault({ schema })).toMatchObject({ code: "STORE_NEWER" });
  expect(fault({ schema, readOnly: true })).toMatchObject({ code: "STORE_NEWER" });
  expect(await server.look("SELECT fence::int FROM hosts", [], undefined, schema)).toEqual([{ fence: 1 }]);
});

test("what keeps a store from being opened is said with a code, a next step and nothing secret", () => {
  expect(fault({ url: server.url("postgres", "SECRET") })).toMatchObject({
    code: "STORE_ERROR",
    message: expect.stringMatching(/28P01.*PGPASSWORD/),
  });
  expect(fault({ url: server.url("postgres", "") }).message).toMatch(/none was given.*PGPASSWORD/);
  expect(fault({ url: server.url("nowhere") }).message).toMatch(/3D000.*createdb/);
  expect(fault({ url: "postgres://me:SECRET@127.0.0.1:1/db" }).message).toMatch(/ECONNREFUSED.*running/);
  expect(fault({ url: "postgres://me:SECRET@name.invalid/db" }).message).toMatch(/name\.invalid/);
  expect(fault({ url: "mysql://me:SECRET@h/db" })).toMatchObject({ code: "REQUEST_INVALID" });
  expect(fault({ url: "SECRET" })).toMatchObject({ code: "REQUEST_INVALID" });
  expect(fault({ schema: 'x"; DROP TABLE turns' })).toMatchObject({ code: "REQUEST_INVALID" });
});
