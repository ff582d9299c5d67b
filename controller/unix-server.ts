/**
 * An HTTP server on a Unix socket. A socket file left by a killed process makes `listen` fail: it is tried first, and
 * only one that nobody answers on is removed.
 */

import { chmodSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { connect } from "node:net";
import { HoldfastError } from "../protocol/errors.ts";

export async function listenOn(path: string, mode: number): Promise<Server> {
  if (await isAnswered(path)) throw new HoldfastError("STORE_OWNED", `somebody listens on ${path}`);
  await rm(path, { force: true });
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new HoldfastError("STORE_ERROR", `can't listen on ${path}`, { cause })),
    );
    // Nothing is awaited from here until the caller has the server: who got in before would never be answered.
    server.listen(path, () => {
      try {
        chmodSync(path, mode);
        resolve();
      } catch (cause) {
        server.close();
        reject(new HoldfastError("STORE_ERROR", `can't close ${path} to others`, { cause }));
      }
    });
  });
  return server;
}

export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.setTimeout(1000, () => probe.destroy(new Error("no answer")));
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", () => resolve(false));
  });
}
