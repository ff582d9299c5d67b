import { afterAll, expect, test } from "vitest";
import { databaseChecks } from "../../../controller/cli/doctor-database.ts";
import { openPostgres } from "../../../controller/store/postgres/open-postgres.ts";
import { PASSWORD, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres();
const careless = await startPostgres({ isDurable: false });
afterAll(async () => {
  await server.remove();
  await careless.remove();
});

test("a server that can be reached is ok, before and behind the making of the store, and beside its owner", async () => {
  expect(databaseChecks(server.url())).toMatchObject([
    { state: "ok", detail: expect.stringContaining("will be made") },
  ]);
  expect(await server.look("SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'")).toEqual([]);
  const owner = openPostgres({ url: server.url() });
  const found = databaseChecks(server.url());
  owner.checkFence();
  owner.close();
  expect(found).toMatchObject([{ state: "ok", detail: expect.stringContaining("PostgreSQL") }]);
  expect(JSON.stringify(found)).not.toContain(PASSWORD);
});

test("a server that forgets what it has acknowledged is a fault", () => {
  openPostgres({ url: careless.url() }).close();
  expect(databaseChecks(careless.url())).toMatchObject([
    { state: "failed", fix: expect.stringContaining("fsync") },
  ]);
});

test("what can't be reached, let in or read fails with a next step, and without the password", async () => {
  const wrong = databaseChecks(server.url("postgres", "SECRET"));
  expect(wrong).toMatchObject([{ state: "failed", detail: expect.stringContaining("PGPASSWORD") }]);
  expect(JSON.stringify(wrong)).not.toContain("SECRET");
  expect(databaseChecks("postgres://me@127.0.0.1:1/db")).toMatchObject([{ state: "failed" }]);
  expect(databaseChecks("nonsense")).toMatchObject([{ state: "failed" }]);
  openPostgres({ url: server.url() }).close();
  await server.look("UPDATE layout SET number = 99");
  expect(databaseChecks(server.url())[0]).toMatchObject({
    state: "failed",
    detail: expect.stringContaining("layout 99"),
  });
});
