/**
 * Stands between the bridge and a CLI's own server, byte for byte, and breaks the connections when it is told to:
 *
 *   node server-relay.ts REQUESTS CLI ARGUMENTS...
 *     prints the CLI's lines with its own port in the place of the CLI's; writes the first line of each connection's
 *     first request to the file REQUESTS
 *   SIGUSR2    every connection that asked for /event is destroyed; nothing else is
 *   SIGHUP     they stay open and carry nothing any more
 *   SIGTTOU    they end cleanly, between two events, as a server ends an answer
 *   SIGWINCH   every connection, new ones too, stays open and carries nothing in either direction: half-open
 *
 * The CLI itself notices nothing: its server, its turn and its model call go on.
 */
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";

/** What the test looks for in the list of processes. */
export const RELAY = "server-relay";

/** Where a chunk of an event stream ends: the event's empty line, then the chunk's own end. */
const EVENT_END = "\n\n\r\n";
const LAST_CHUNK = "0\r\n\r\n";

if (import.meta.main) {
  const [requests = "", file = "", ...args] = process.argv.slice(2);
  /** The bridge's end and the CLI's end of each. */
  const all = new Map<Socket, Socket>();
  const streams = new Map<Socket, Socket>();
  let isFrozen = false;
  let isEnding = false;
  const cli = spawn(file, args, { stdio: ["inherit", "pipe", "inherit"] });
  cli.once("exit", (code) => process.exit(code ?? 1));
  process.on("SIGUSR2", () => {
    for (const near of streams.keys()) near.destroy();
  });
  process.on("SIGHUP", () => {
    for (const [near, far] of streams) far.unpipe(near).resume();
  });
  process.on("SIGTTOU", () => {
    isEnding = true;
  });
  process.on("SIGWINCH", () => {
    isFrozen = true;
    for (const [near, far] of all) freeze(near, far);
  });

  function freeze(near: Socket, far: Socket): void {
    far.unpipe(near).resume();
    near.unpipe(far).resume();
  }

  function onRequest(first: Buffer, near: Socket, far: Socket): void {
    const line = first.toString("latin1").split("\r\n")[0] ?? "";
    appendFileSync(requests, `${line}\n`);
    if (!line.startsWith("GET /event?")) return;
    streams.set(near, far);
    near.once("close", () => streams.delete(near));
    far.on("data", (bytes: Buffer) => {
      if (!isEnding || bytes.subarray(-EVENT_END.length).toString("latin1") !== EVENT_END) return;
      // The pipe has handed this very chunk on already.
      far.unpipe(near).resume();
      near.end(LAST_CHUNK);
    });
  }

  let isServing = false;
  let seen = "";
  cli.stdout.setEncoding("utf8");
  cli.stdout.on("data", (text: string) => {
    if (isServing) return;
    seen += text;
    const port = /http:\/\/127\.0\.0\.1:(\d+)\s/.exec(seen)?.[1];
    if (port === undefined) return;
    isServing = true;
    const proxy = createServer((near) => {
      const far = connect(Number(port), "127.0.0.1");
      all.set(near, far);
      near.once("data", (first: Buffer) => onRequest(first, near, far));
      near.once("error", () => far.destroy());
      far.once("error", () => near.destroy());
      near.once("close", () => {
        all.delete(near);
        far.destroy();
      });
      far.once("close", () => near.destroySoon());
      near.pipe(far);
      far.pipe(near);
      if (isFrozen) freeze(near, far);
    });
    proxy.listen(0, "127.0.0.1", () => {
      const address = proxy.address();
      const own = typeof address === "object" && address !== null ? address.port : 0;
      process.stdout.write(seen.replace(`127.0.0.1:${port}`, `127.0.0.1:${own}`));
    });
  });
}
