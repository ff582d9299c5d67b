import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createConnection } from "../../../../controller/store/postgres/connection.ts";
import type { Answer } from "../../../../controller/store/postgres/messages.ts";
import { startPostgres } from "../../../support/postgres.ts";
import { within } from "../../../support/until.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);

async function connected() {
  const connection = createConnection({ url: server.url(), schema: "public", limitMs: 5000 });
  onTestFinished(async () => {
    await connection.ask({ kind: "close" });
  });
  const first = await connection.ask({ kind: "connect", limitMs: 5000 });
  expect(first).toMatchObject({ ok: true, connection: 1 });
  return connection;
}

const rowsOf = (answer: Answer) => (answer.ok ? answer.rows : answer.fault);
const select = (sql: string, on: number | null = null) => ({ kind: "script", on, sql }) as const;
const pidOf = async (connection: Awaited<ReturnType<typeof connected>>) =>
  rowsOf(await connection.ask(select("SELECT pg_backend_pid() AS pid"))) as Array<{ pid: number }>;

test("numbers are numbers, bytes are bytes, and text is the same text", async () => {
  const connection = await connected();
  const sql =
    "SELECT $1::bigint AS a, $2::float8 AS b, sum($1::bigint) AS c, $3::bytea AS d, $4::text AS e, count(*) AS n";
  const values = [2 ** 52, 0.1, new Uint8Array([0, 255]), "é'\\\u{1F600}"];
  const answer = await connection.ask({ kind: "query", on: null, sql, values });
  expect(rowsOf(answer)).toEqual([
    { a: 2 ** 52, b: 0.1, c: 2 ** 52, d: Buffer.from([0, 255]), e: values[3], n: 1 },
  ]);
});

test("behind a lost connection comes a new one, and statements of the old one's transaction are refused", async () => {
  const connection = await connected();
  const [{ pid } = { pid: 0 }] = await pidOf(connection);
  await connection.ask(select("BEGIN", 1));
  await server.look("SELECT pg_terminate_backend($1)", [pid]);
  expect(await connection.ask({ kind: "connect", limitMs: 5000 })).toMatchObject({ ok: true });
  expect(await connection.ask(select("SELECT 1", 1))).toMatchObject({ ok: false, fault: { kind: "gone" } });
  expect((await pidOf(connection))[0]?.pid).not.toBe(pid);
});

test("a connection that is abandoned in the middle of a statement leaves nothing running", async () => {
  const connection = await connected();
  const [{ pid } = { pid: 0 }] = await pidOf(connection);
  const asked = connection.ask(select("SELECT pg_sleep(60)"));
  connection.abandon();
  expect(await asked).toMatchObject({ ok: false, fault: { kind: "lost" } });
  await expect
    .poll(() => server.look("SELECT pid FROM pg_stat_activity WHERE pid = $1", [pid]), { timeout: 10_000 })
    .toEqual([]);
});

test("an error of a statement leaves the connection as it was", async () => {
  const connection = await connected();
  expect(await connection.ask(select("SELECT nothing"))).toMatchObject({
    ok: false,
    fault: { kind: "sql", code: "42703" },
  });
  expect(rowsOf(await connection.ask(select("SELECT 1 AS one", 1)))).toEqual([{ one: 1 }]);
});

test("a server that lets us in and then says nothing is given up within the limit", async () => {
  const letIn = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
  const sockets: Socket[] = [];
  const silent = createServer((socket) => {
    sockets.push(socket.on("error", () => undefined));
    socket.once("data", () => socket.write(letIn));
  }).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    silent.close();
    await once(silent, "close");
  });
  const { port } = silent.address() as AddressInfo;
  const connection = createConnection({
    url: `postgres://me@127.0.0.1:${port}/db`,
    schema: "s",
    limitMs: 200,
  });
  const answer = await within("an answer", connection.ask({ kind: "connect", limitMs: 200 }), 5000);
  expect(answer).toMatchObject({ ok: false, fault: { kind: "absent" } });
  await connection.ask({ kind: "close" });
});

test("the server gives up before we do, and a commit is on its disk whatever its default", async () => {
  const connection = await connected();
  const names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
  const sql = names.map((name) => `current_setting('${name}') AS ${name}`).join(", ");
  expect(
    rowsOf(await connection.ask(select(`SELECT ${sql}, current_setting('synchronous_commit') AS commit`))),
  ).toEqual([
    {
      statement_timeout: "4500ms",
      lock_timeout: "4500ms",
      idle_in_transaction_session_timeout: "5s",
      commit: "on",
    },
  ]);
});
