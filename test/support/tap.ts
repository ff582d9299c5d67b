// Stands between the two ends of a Unix socket and keeps every byte that passes, each direction for itself.
import { once } from "node:events";
import { createServer, connect as dial, type Socket } from "node:net";

export interface Tap {
  /** What the one who dialled sent, over all connections. */
  sent(): Buffer;
  /** What the one who listens answered. */
  received(): Buffer;
  connections(): number;
  close(): Promise<void>;
}

export async function openTap(path: string, target: string): Promise<Tap> {
  const sent: Buffer[] = [];
  const received: Buffer[] = [];
  const open = new Set<Socket>();
  let connections = 0;
  const server = createServer((near) => {
    connections += 1;
    const far = dial(target);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.once("close", () => {
        open.delete(socket);
        near.destroy();
        far.destroy();
      });
      // The close follows.
      socket.on("error", () => undefined);
    }
    near.on("data", (bytes: Buffer) => sent.push(bytes));
    far.on("data", (bytes: Buffer) => received.push(bytes));
    near.pipe(far);
    far.pipe(near);
  });
  server.listen(path);
  await once(server, "listening");
  return {
    sent: () => Buffer.concat(sent),
    received: () => Buffer.concat(received),
    connections: () => connections,
    async close() {
      for (const socket of open) socket.destroy();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}
