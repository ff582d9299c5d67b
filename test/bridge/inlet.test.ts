import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Inlet, openInlet } from "../../bridge/inlet.ts";
import { keptLog } from "../support/kept-log.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { within } from "../support/until.ts";

/** A host that answers each connection as the test says, and an inlet that leads to it. */
async function scene(
  answer: (socket: Socket) => void,
): Promise<{ inlet: Inlet; log: ReturnType<typeof keptLog> }> {
  const path = join(temporaryDirectory(), "model.sock");
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    answer(socket);
  });
  server.listen(path);
  await once(server, "listening");
  const log = keptLog();
  const inlet = await openInlet(path, log);
  onTestFinished(async () => {
    await inlet.close();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { inlet, log };
}

function dial(inlet: Inlet): Socket {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(inlet.url).port) });
  socket.on("error", () => undefined);
  onTestFinished(() => {
    socket.destroy();
  });
  return socket;
}

async function allOf(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await within("the end", once(socket, "end"));
  return Buffer.concat(chunks).toString("latin1");
}

test("it listens on the loopback only, on a port that was free", async () => {
  const { inlet } = await scene(() => undefined);
  expect(inlet.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
});

test("bytes pass both ways unchanged, many of them, and whatever they are", async () => {
  const { inlet } = await scene((socket) => socket.pipe(socket));
  const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, at) => (at * 7) % 256));
  const socket = dial(inlet);
  const answer = allOf(socket);
  socket.end(bytes);
  expect(Buffer.from(await answer, "latin1").equals(bytes)).toBe(true);
});

test("one side may end its half and still read the other's answer", async () => {
  const { inlet } = await scene((socket) => {
    socket.once("end", () => socket.end("answer"));
    socket.resume();
  });
  const socket = dial(inlet);
  const answer = allOf(socket);
  socket.end("question");
  expect(await answer).toBe("answer");
});

test("an answer reaches the CLI while its request is still open", async () => {
  const { inlet } = await scene((socket) => socket.write("first part"));
  const socket = dial(inlet);
  const [chunk] = await within("the first part", once(socket, "data"));
  expect(String(chunk)).toBe("first part");
});

test("a CLI that goes away closes the host's side too", async () => {
  const closed = Promise.withResolvers<void>();
  const { inlet } = await scene((socket) => {
    socket.resume();
    socket.once("close", () => closed.resolve());
    socket.once("end", () => socket.end());
    socket.write("hello");
  });
  const socket = dial(inlet);
  await once(socket, "data");
  socket.resetAndDestroy();
  await within("the host's side", closed.promise);
});

test("a host that goes away closes the CLI's side too", async () => {
  const { inlet } = await scene((socket) => socket.destroy());
  const socket = dial(inlet);
  socket.resume();
  await within("the CLI's side", once(socket, "close"));
});

test("without a host the connection ends at once, and the log says why", async () => {
  const log = keptLog();
  const inlet = await openInlet(join(temporaryDirectory(), "nobody.sock"), log);
  onTestFinished(() => inlet.close());
  const socket = dial(inlet);
  socket.resume();
  await within("the end", once(socket, "close"));
  expect(log.lines).toEqual([
    { level: "warn", what: "the host's model socket failed", fields: { code: "ENOENT" } },
  ]);
});

test("beyond the limit a connection is closed, and the earlier ones stay", async () => {
  const { inlet } = await scene((socket) => socket.write("x"));
  const open = Array.from({ length: 256 }, () => dial(inlet));
  await Promise.all(open.map((socket) => within("its first byte", once(socket, "data"))));
  const more = dial(inlet);
  more.resume();
  await within("the refusal", once(more, "close"));
  expect(open.every((socket) => !socket.destroyed)).toBe(true);
});

test("a close ends what is open", async () => {
  const { inlet } = await scene((socket) => socket.write("x"));
  const socket = dial(inlet);
  await once(socket, "data");
  const gone = once(socket, "close");
  await within("the close", inlet.close());
  await within("the connection's end", gone);
});
