// One holder of a name at a time on this machine. Held by an abstract Unix socket, so the kernel lets go of it when
// the holder dies and no stale file can remain. Linux only; gives no order among those who wait.

import { createServer, type Server } from "node:net";

const RETRY_MS = 100;

/** Runs `work` while holding `name`; rejects when it isn't free within `waitMs`. `onWait` is called once. */
export async function withLock<T>(
  name: string,
  options: { waitMs: number; onWait?: () => void },
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + options.waitMs;
  let holder = await tryHold(name);
  if (holder === undefined) options.onWait?.();
  while (holder === undefined) {
    if (Date.now() > deadline) throw new Error(`another process has held "${name}" for ${options.waitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    holder = await tryHold(name);
  }
  try {
    return await work();
  } finally {
    holder.close();
  }
}

function tryHold(name: string): Promise<Server | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Server | undefined>();
  const server = createServer((visitor) => visitor.destroy());
  server.once("error", (cause: NodeJS.ErrnoException) => {
    if (cause.code === "EADDRINUSE") resolve(undefined);
    else reject(cause);
  });
  server.listen(`\0${name}`, () => resolve(server));
  return promise;
}
