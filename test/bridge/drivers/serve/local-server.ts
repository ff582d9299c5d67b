// Small servers on loopback for tests, ended with the test that made them.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  return (server.address() as AddressInfo).port;
}

/** An HTTP server; returns its port. */
export function httpServer(handler: Handler): Promise<number> {
  return listen(createServer(handler));
}

/** A server below HTTP, for answers that no HTTP server would give. */
export function tcpServer(handler: (socket: Socket) => void): Promise<number> {
  return listen(createTcpServer(handler));
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

export function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}
