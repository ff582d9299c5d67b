/**
 * The way to the model: a TCP port on the sandbox's loopback, piped byte for byte to a Unix socket of the host, where
 * the controller adds the key. Knows nothing of what passes through.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { HoldfastError } from "../protocol/errors.ts";
import type { Log } from "./log.ts";

/** Connections at once. Beyond: the new one is closed; the CLI sees a refused connection and says so. */
const CONNECTIONS = 256;

export interface Inlet {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  close(): Promise<void>;
}

export async function openInlet(modelSocket: string, log: Log): Promise<Inlet> {
  const open = new Set<Socket>();
  // Small pieces of a stream go on at once, and do not wait for the acknowledgement of the one before.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ path: modelSocket, allowHalfOpen: true });
    for (const socket of [near, far]) {
      open.add(socket);
      socket.once("close", () => open.delete(socket));
    }
    near.once("error", () => far.destroy());
    far.once("error", (error: NodeJS.ErrnoException) => {
      log.warn("the host's model socket failed", { code: error.code ?? "" });
      near.destroy();
    });
    // A reset must reach the other side as one, and not as an orderly end.
    near.once("close", () => far.destroy());
    far.once("close", () => near.destroySoon());
    near.pipe(far);
    far.pipe(near);
  });
  server.maxConnections = CONNECTIONS;
  await listen(server);
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("a TCP server has an address");
  return {
    url: `http://127.0.0.1:${address.port}`,
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new HoldfastError("INTERNAL", "the inlet's port can't be opened", { cause })),
    );
    server.listen({ host: "127.0.0.1", port: 0 }, resolve);
  });
}
