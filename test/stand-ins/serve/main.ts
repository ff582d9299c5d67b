// A stand-in for `opencode serve` and `kilo serve` that plays them badly on purpose: `node main.ts SCRIPT serve --port 0 --hostname …`.
// It needs no model. What was called is in `calls.ndjson` beside the script, its port in `port`.
import { appendFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { createRoutes } from "./routes.ts";
import { readScript } from "./script.ts";
import { createWorld } from "./world.ts";

const [, , scriptPath = ""] = process.argv;
const script = readScript(scriptPath);
const beside = (name: string) => join(dirname(scriptPath), name);
const environment = process.env;
const cli = script.cli ?? "opencode";
const password = environment[`${cli.toUpperCase()}_SERVER_PASSWORD`];
const expected = `Basic ${Buffer.from(`${cli}:${password}`).toString("base64")}`;
const world = createWorld(script, environment.XDG_DATA_HOME ?? ".");
const routes = createRoutes(world, (code) => process.exit(code));

const server = createServer((request, response) => {
  bodyOf(request).then(
    (text) => {
      const url = new URL(request.url ?? "/", "http://127.0.0.1");
      const isOurs = url.pathname === "/stand-in";
      if (!isOurs) {
        const line = {
          method: request.method,
          path: url.pathname,
          body: text === "" ? null : JSON.parse(text),
        };
        appendFileSync(beside("calls.ndjson"), `${JSON.stringify(line)}\n`);
      }
      if (!isOurs && request.headers.authorization !== expected) {
        response.writeHead(401, { "www-authenticate": `Basic realm="Secure Area"` }).end();
        return;
      }
      const found = routes.find(([method, path]) => method === request.method && path.test(url.pathname));
      if (found === undefined) return void response.writeHead(404).end();
      const id = decodeURIComponent(found[1].exec(url.pathname)?.[1] ?? "");
      found[2]({ request, response, url, id, body: text === "" ? {} : JSON.parse(text) });
    },
    () => request.destroy(),
  );
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

if (script.ignoresSigterm === true) process.on("SIGTERM", () => undefined);

server.listen(0, "127.0.0.1", () => {
  announce((server.address() as AddressInfo).port).catch(() => process.exit(70));
});

async function announce(port: number): Promise<void> {
  const { noise = "", times = 1, afterMs = 0, byByte = false, exit } = script.ready ?? {};
  writeFileSync(beside("port"), String(port));
  process.stdout.write(noise);
  if (exit !== undefined) process.exit(exit);
  await after(afterMs);
  const line = `${cli} server listening on http://127.0.0.1:${port}\n`.repeat(times);
  if (!byByte) {
    process.stdout.write(line);
    return;
  }
  // Each in a write and a turn of the loop of its own, so that the reader sees the line grow.
  for (const character of line) {
    process.stdout.write(character);
    await after(1);
  }
}
