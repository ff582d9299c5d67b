/**
 * Stands between the bridge and a CLI's own server, byte for byte, and cuts the event streams when it is told to:
 *
 *   node stream-cutter.ts CLI ARGUMENTS...     prints the CLI's lines with its own port in the place of the CLI's
 *   SIGUSR2                                    every connection that asked for /event is destroyed; nothing else is
 *   SIGHUP                                     they stay open and carry nothing any more
 *
 * The CLI itself notices nothing: its server, its turn and its model call go on.
 */
import { spawn } from "node:child_process";
import { connect, createServer, type Socket } from "node:net";

/** What the test looks for in the list of processes. */
export const CUTTER = "stream-cutter";

if (import.meta.main) {
  const [file = "", ...args] = process.argv.slice(2);
  /** The bridge's end and the CLI's end of each. */
  const streams = new Map<Socket, Socket>();
  const cli = spawn(file, args, { stdio: ["inherit", "pipe", "inherit"] });
  cli.once("exit", (code) => process.exit(code ?? 1));
  process.on("SIGUSR2", () => {
    for (const near of streams.keys()) near.destroy();
  });
  process.on("SIGHUP", () => {
    for (const [near, far] of streams) far.unpipe(near).resume();
  });

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
      near.once("data", (first: Buffer) => {
        if (!first.subarray(0, 11).toString("latin1").startsWith("GET /event?")) return;
        streams.set(near, far);
        near.once("close", () => streams.delete(near));
      });
      near.once("error", () => far.destroy());
      far.once("error", () => near.destroy());
      near.once("close", () => far.destroy());
      far.once("close", () => near.destroySoon());
      near.pipe(far);
      far.pipe(near);
    });
    proxy.listen(0, "127.0.0.1", () => {
      const address = proxy.address();
      const own = typeof address === "object" && address !== null ? address.port : 0;
      process.stdout.write(seen.replace(`127.0.0.1:${port}`, `127.0.0.1:${own}`));
    });
  });
}
