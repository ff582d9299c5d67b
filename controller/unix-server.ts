/**
 * An HTTP server on a Unix socket. It is bound under a name of its own and then put in the path's place, so that nobody
 * dials it half made, and so that whoever closes it takes its own file away and never a successor's.
 */

import { randomBytes } from "node:crypto";
import { chmodSync, renameSync, rmSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";

/** Which file a server is behind: the path may be another's by the time of its close. */
const files = new WeakMap<Server, { path: string; inode: number }>();

/**
 * A socket file left by a killed process gives way. One on which somebody answers is refused with STORE_OWNED, unless
 * `takeOver`: then whoever listens there keeps its connections and gets no new ones.
 */
export async function listenOn(
  path: string,
  mode: number,
  { takeOver = false, ...settings }: { takeOver?: boolean; maxHeaderSize?: number } = {},
): Promise<Server> {
  if (!takeOver && (await isAnswered(path)))
    throw new HoldfastError("STORE_OWNED", `somebody listens on ${path}`);
  const server = createServer(settings);
  // Not longer than the names that it stands for: a socket's path has a limit.
  const own = join(dirname(path), `.${randomBytes(3).toString("hex")}`);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new HoldfastError("STORE_ERROR", `can't listen on ${path}`, { cause })),
    );
    // Nothing is awaited from here until the caller has the server: who got in before would never be answered.
    server.listen(own, () => {
      try {
        chmodSync(own, mode);
        files.set(server, { path, inode: statSync(own).ino });
        renameSync(own, path);
        resolve();
      } catch (cause) {
        server.close();
        reject(new HoldfastError("STORE_ERROR", `can't listen on ${path}`, { cause }));
      }
    });
  });
  return server;
}

export function closeServer(server: Server): Promise<void> {
  const file = files.get(server);
  // Node takes away the name under which it was bound, which is gone already.
  if (file !== undefined && inodeOf(file.path) === file.inode) rmSync(file.path, { force: true });
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

function inodeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? null;
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
