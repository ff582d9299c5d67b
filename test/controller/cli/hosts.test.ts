import { afterAll, expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../controller/store/open-store.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { PASSWORD, startPostgres } from "../../support/postgres.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);

const env = { DOCKER_HOST: DEAD_ENGINE, HOLDFAST_STORE_URL: server.url() };
const run = (...words: string[]) => cli(words, { store: temporaryDirectory(), env });

function open(host: string) {
  const store = openStore({ url: server.url(), host, nowAt: () => 1, cliVersion: () => "1" });
  onTestFinished(() => store.close());
  return store;
}

test("before any host has opened the store that is said, and a store that one controller has has no hosts", async () => {
  const none = await run("host", "ls");
  expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining("there is no store") });
  const alone = await cli(["host", "ls"], { store: temporaryDirectory(), env: { DOCKER_HOST: DEAD_ENGINE } });
  expect(alone).toMatchObject({ code: 2, stderr: expect.stringContaining("--store-url") });
});

test("hosts are listed, drained, taken back and removed beside their controllers; one that is alive is not removed", async () => {
  const [a, b] = [open("a"), open("b")];
  a.createSandbox({ id: "box", kind: "process", directory: "/d/box" });
  const listed = await run("host", "ls");
  expect(listed).toMatchObject({ code: 0, stderr: "" });
  expect(listed.stdout).toMatch(/a +active +yes +\S+ s ago +1\n/);
  expect(listed.stdout).toMatch(/b +active +yes +\S+ s ago +0/);
  expect(await run("host", "drain", "a")).toMatchObject({ code: 0, stdout: "host a is draining\n" });
  expect(a.hosts?.renew()).toBe("draining");
  expect(await run("host", "drain", "a", "--undo")).toMatchObject({ code: 0, stdout: "host a is active\n" });
  const early = await run("host", "remove", "a");
  expect(early).toMatchObject({ code: 1, stderr: expect.stringContaining("HOST_ALIVE") });
  await server.look("UPDATE hosts SET alive_until = 0 WHERE id = 'a'");
  expect(JSON.parse((await run("host", "remove", "a", "--json")).stdout)).toEqual({
    id: "a",
    state: "removed",
  });
  expect(() => a.setWanted("box", "running")).toThrow(expect.objectContaining({ code: "FENCED" }));
  b.checkOwned();
  expect((await run("host", "drain", "nobody")).stderr).toContain("HOST_UNKNOWN");
  const { stdout } = await run("host", "ls", "--json");
  expect(JSON.parse(stdout)).toMatchObject([
    { id: "a", state: "removed", isAlive: false, sandboxes: 1 },
    { id: "b", state: "active" },
  ]);
  expect(stdout).not.toContain(PASSWORD);
});

test("each host lists its own sandboxes by its id; an id that can't be one is refused", async () => {
  const c = open("c");
  c.createSandbox({ id: "box-c", kind: "process", directory: "/d/box-c" });
  expect((await run("sandbox", "ls", "--host-id", "c", "--json")).stdout).toContain("box-c");
  expect((await run("sandbox", "ls", "--host-id", "d", "--json")).stdout).not.toContain("box-c");
  expect(await run("sandbox", "ls", "--host-id", "no host")).toMatchObject({ code: 2 });
});
