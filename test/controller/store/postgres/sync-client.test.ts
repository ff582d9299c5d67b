import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startSyncClient } from "../../../../controller/store/postgres/sync-client.ts";

/** Takes connections and says nothing. */
async function silentServer(): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => undefined));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return (server.address() as { port: number }).port;
}

function clientOf(port: number) {
  const client = startSyncClient({ url: `postgres://me@127.0.0.1:${port}/db`, schema: "s", limitMs: 60_000 });
  onTestFinished(() => client.close());
  return client;
}

test("a server that says nothing costs the limit and no more", async () => {
  const client = clientOf(await silentServer());
  const before = performance.now();
  expect(client.ask({ kind: "connect", limitMs: 60_000 }, 300)).toMatchObject({
    ok: false,
    fault: { kind: "timeout" },
  });
  expect(performance.now() - before).toBeGreaterThanOrEqual(300);
  expect(performance.now() - before).toBeLessThan(3000);
});

test("without a connection, a statement is refused at once", async () => {
  const client = clientOf(await silentServer());
  client.ask({ kind: "connect", limitMs: 60_000 }, 200);
  const before = performance.now();
  const request = { kind: "query", on: null, sql: "SELECT 1", values: [] } as const;
  expect(client.ask({ ...request, values: [] }, 60_000)).toMatchObject({
    ok: false,
    fault: { kind: "absent" },
  });
  expect(performance.now() - before).toBeLessThan(3000);
});

test("a closed one answers at once, and closes again", async () => {
  const client = clientOf(await silentServer());
  client.close();
  client.close();
  expect(client.ask({ kind: "connect", limitMs: 1 }, 60_000)).toMatchObject({
    ok: false,
    fault: { kind: "absent" },
  });
});
