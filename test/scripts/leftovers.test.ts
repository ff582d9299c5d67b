import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isRunAlive, listLeftovers, newRun, removeLeftovers, testLabel } from "../../scripts/leftovers.ts";

let folder: string;
let engine: FakeEngine;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-leftovers-"));
  const socketPath = join(folder, "engine.sock");
  vi.stubEnv("DOCKER_HOST", `unix://${socketPath}`);
  engine = await startEngine(socketPath);
});

afterEach(async () => {
  engine.server.close();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

test("a run lives as long as the process that made it", () => {
  expect(isRunAlive(newRun())).toBe(true);
  expect(isRunAlive(newRun().replace(/\.\d+\./, ".1."))).toBe(false);
  expect(isRunAlive("")).toBe(false);
  expect(isRunAlive("1.2.3")).toBe(false);
});

test("without an engine there is no list, and nothing to remove", async () => {
  vi.stubEnv("DOCKER_HOST", `unix://${folder}/none.sock`);
  expect(await listLeftovers()).toBeUndefined();
  expect(await removeLeftovers(() => true)).toEqual([]);
});

test("only what the predicate names is removed, and the engine is asked for our label only", async () => {
  engine.objects = [
    { path: "/containers/c1", run: "mine" },
    { path: "/containers/c2", run: "theirs" },
    { path: "/volumes/v1", run: "mine" },
    { path: "/networks/n1", run: "mine" },
    { path: "/images/i1", run: "mine" },
  ];
  const removed = await removeLeftovers((run) => run === "mine");
  expect(removed.map(({ kind, id }) => `${kind} ${id}`)).toEqual([
    "container c1",
    "volume v1",
    "network n1",
    "image i1",
  ]);
  expect(engine.objects).toEqual([{ path: "/containers/c2", run: "theirs" }]);
  expect(engine.filters).toEqual(new Set([JSON.stringify({ label: [testLabel] })]));
});

test("a refused removal is an error, and one that is under way is waited for", async () => {
  engine.objects = [{ path: "/containers/c1", run: "mine" }];
  engine.refuseWith = 500;
  await expect(removeLeftovers(() => true)).rejects.toThrow("/containers/c1");
  engine.refuseWith = 409;
  setTimeout(() => {
    engine.objects = [];
  }, 50);
  expect(await removeLeftovers(() => true)).toHaveLength(1);
});

type FakeEngine = {
  server: Server;
  objects: { path: string; run: string }[];
  filters: Set<string | null>;
  refuseWith: number | undefined;
};

/** Answers the few requests of leftovers.ts from a list, in the shapes of the real engine. */
async function startEngine(socketPath: string): Promise<FakeEngine> {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://engine");
    if (request.method === "DELETE") {
      if (fake.refuseWith === undefined)
        fake.objects = fake.objects.filter(({ path }) => path !== url.pathname);
      response.writeHead(fake.refuseWith ?? 204).end();
      return;
    }
    if (url.pathname === "/_ping") return void response.end("OK");
    fake.filters.add(url.searchParams.get("filters"));
    const kind = url.pathname.split("/")[1] ?? "";
    const found = fake.objects
      .filter(({ path }) => path.startsWith(`/${kind}/`))
      .map(({ path, run }) => {
        const id = path.split("/")[2];
        return { ...(kind === "volumes" ? { Name: id } : { Id: id }), Labels: { [testLabel]: run } };
      });
    response.end(JSON.stringify(kind === "volumes" ? { Volumes: found } : found));
  });
  const fake: FakeEngine = { server, objects: [], filters: new Set(), refuseWith: undefined };
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return fake;
}
