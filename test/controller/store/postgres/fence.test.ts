import pg from "pg";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { claimHost, endHolders, RAISE, tryLock } from "../../../../controller/store/postgres/fence.ts";
import { POSTGRES_MIGRATIONS } from "../../../../controller/store/postgres/migrations.ts";
import { startPostgres } from "../../../support/postgres.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);
await server.look(`SET search_path = public; ${POSTGRES_MIGRATIONS[0]};
  ALTER TABLE hosts ALTER COLUMN fence TYPE INT`);

async function connected(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.url() });
  client.on("error", () => undefined);
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return client;
}

const raise = async (client: pg.Client, host: string) =>
  (await client.query(RAISE, [host])).rows[0]?.fence as number;
const held = async (client: pg.Client, host: string) =>
  (await client.query(tryLock("s", host))).rows[0]?.held as boolean;

test("a host's lock has one holder, until that one's connection ends; another host's is free", async () => {
  const [a, b] = [await connected(), await connected()];
  expect(await held(a, "it's")).toBe(true);
  expect(await held(b, "it's")).toBe(false);
  expect(await held(b, "other")).toBe(true);
  await b.query(endHolders("s", "it's"));
  await expect.poll(() => held(b, "it's"), { timeout: 15_000 }).toBe(true);
});

test("a claim holds with the fence that was raised last, and no other", async () => {
  const client = await connected();
  const fence = await raise(client, "h-1");
  const second = await raise(client, "h-1");
  expect(second).toBeGreaterThan(fence);
  const claim = (ours: number) =>
    claimHost(client, { schema: "s", owner: { host: "h-1", fence: ours }, before: null });
  await expect(claim(fence)).rejects.toMatchObject({ fault: { kind: "fenced" } });
  await claim(second);
});

test("a lock that our own lost connection still has is taken from it, and from nobody else", async () => {
  const [lost, fresh, stranger] = [await connected(), await connected(), await connected()];
  const fence = await raise(lost, "h-2");
  expect(await held(lost, "h-2")).toBe(true);
  const { rows } = await lost.query<{ pid: number; started: string }>(
    "SELECT pid, backend_start::text AS started FROM pg_stat_activity WHERE pid = pg_backend_pid()",
  );
  const session = { pid: rows[0]?.pid ?? 0, startedAt: "another time" };
  const claim = (startedAt: string) =>
    claimHost(fresh, {
      schema: "s",
      owner: { host: "h-2", fence },
      before: { ...session, startedAt },
    });
  await expect(claim("2001-01-01 00:00:00+00")).rejects.toMatchObject({ fault: { kind: "absent" } });
  await expect
    .poll(
      () =>
        claim(rows[0]?.started ?? "").then(
          () => "held",
          () => "not yet",
        ),
      { timeout: 15_000 },
    )
    .toBe("held");
  expect(await held(stranger, "h-2")).toBe(false);
});
