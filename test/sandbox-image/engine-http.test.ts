import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, expect, test } from "vitest";
import {
  engineJson,
  engineProgress,
  engineRequest,
  pingEngine,
  socketOfDockerHost,
} from "../../sandbox-image/engine-http.ts";

const started: { server: Server; folder: string }[] = [];

afterEach(() => {
  for (const { server, folder } of started.splice(0)) {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

async function engineThat(answers: RequestListener): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "hf-eng-"));
  const socketPath = join(folder, "s");
  const server = createServer(answers);
  started.push({ server, folder });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return socketPath;
}

test("an engine that answers is alive; a missing socket and a silent listener are not", async () => {
  const good = await engineThat((_request, response) => response.end("OK"));
  const silent = await engineThat(() => undefined);
  expect(await pingEngine(good)).toBe(true);
  expect(await pingEngine("/none/there.sock")).toBe(false);
  expect(await pingEngine(silent, 50)).toBe(false);
});

test("404 is undefined, another failure is an error with the engine's own words", async () => {
  const socketPath = await engineThat((request, response) => {
    response.statusCode = request.url === "/absent" ? 404 : 409;
    response.end(JSON.stringify({ message: "in use" }));
  });
  expect(await engineJson({ socketPath, method: "GET", path: "/absent" })).toBeUndefined();
  await expect(engineJson({ socketPath, method: "DELETE", path: "/busy" })).rejects.toMatchObject({
    status: 409,
    message: expect.stringContaining("in use") as string,
  });
});

test("an error line in a build's output is an error although the status was 200", async () => {
  const socketPath = await engineThat((_request, response) => {
    response.end('{"stream":"Step 1"}\n{"errorDetail":{},"error":"no such file"}\n');
  });
  const build = engineProgress({ socketPath, method: "POST", path: "/build" });
  await expect(build).rejects.toThrow(/no such file\nStep 1/);
});

test("a tar source that breaks ends the exchange with its cause", async () => {
  const socketPath = await engineThat((request) => void request.resume());
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from("x");
    throw new Error("source broke");
  }
  const sent = engineRequest({ socketPath, method: "POST", path: "/build", tar: Readable.from(broken()) });
  await expect(sent).rejects.toThrow("source broke");
});

test("an engine that goes away in the middle of its answer is an error", async () => {
  const socketPath = await engineThat((_request, response) => {
    response.writeHead(200, { "Content-Length": "100" });
    response.write("half", () => response.destroy());
  });
  await expect(engineRequest({ socketPath, method: "GET", path: "/version" })).rejects.toThrow();
});

test.each([
  ["unix:///run/x.sock", "/run/x.sock"],
  ["tcp://host:2375", undefined],
  ["", undefined],
])("of DOCKER_HOST=%s only a Unix socket is used", (address, expected) => {
  expect(socketOfDockerHost(address)).toBe(expected);
});
