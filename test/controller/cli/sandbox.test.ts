import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../controller/store/open-store.ts";
import type { Store } from "../../../controller/store/store.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

function run(args: string[], store: string) {
  return cli(args, { store, env: { DOCKER_HOST: DEAD_ENGINE } });
}

function ownedStore(directory: string): Store {
  const store = openStore({ directory, nowAt: () => Date.now(), cliVersion: () => "1" });
  onTestFinished(() => store.close());
  return store;
}

function fill(store: Store, directory: string): void {
  store.createSandbox({ id: "sb-1", kind: "process", directory: join(directory, "s", "sb-1") });
  store.createSandbox({ id: "sb-2", kind: "docker", directory: join(directory, "s", "sb-2") });
  store.createSandbox({ id: "sb-3", kind: "docker", directory: join(directory, "s", "sb-3") });
  store.createMember({ id: "m-1", sandbox: "sb-1", cli: "opencode", ...{ options: MEMBER } });
  store.createMember({ id: "m-2", sandbox: "sb-1", cli: "opencode", ...{ options: MEMBER } });
  store.setUnready("sb-2", ["the helper is \u001b[31mnot\nthe pinned one"]);
  store.setWanted("sb-3", "removed");
}

test("where nothing was made yet, there is nothing to list, and looking makes nothing", async () => {
  const store = join(temporaryDirectory(), "none");
  expect(await run(["sandbox", "ls"], store)).toEqual({ code: 0, stdout: "no sandboxes\n", stderr: "" });
  expect(await run(["sandbox", "ls", "--json"], store)).toEqual({ code: 0, stdout: "[]\n", stderr: "" });
  expect((await run(["sandbox", "rm", "sb-1"], store)).code).toBe(1);
  expect(existsSync(store)).toBe(false);
});

test("beside a controller that runs, sandboxes are listed with their members, a line each, nothing forged", async () => {
  const directory = temporaryDirectory();
  fill(ownedStore(directory), directory);
  const { code, stdout, stderr } = await run(["sandbox", "ls"], directory);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  expect(lines).toHaveLength(4);
  expect(lines[1]).toMatch(/^sb-1 +process +\w+ +m-1 +opencode +0$/);
  expect(lines[3]).toMatch(/^sb-2 +docker +not ready .* the helper is \[31mnot the pinned one$/);
  expect(stdout).not.toContain("sb-3");

  const json = await run(["sandbox", "ls", "--json"], directory);
  expect(json.stdout).not.toContain("\u001b");
  expect(JSON.parse(json.stdout)).toMatchObject([
    {
      id: "sb-1",
      kind: "process",
      unready: null,
      members: [{ id: "m-1", settledTurns: 0, nativeId: null }, {}],
    },
    { id: "sb-2", unready: expect.stringContaining("\u001b[31m") as string, members: [] },
  ]);
});

test("what changes a sandbox is refused beside a controller that runs, with the next step", async () => {
  const directory = temporaryDirectory();
  fill(ownedStore(directory), directory);
  for (const args of [
    ["sandbox", "rm", "sb-1"],
    ["sandbox", "stop", "sb-1"],
  ]) {
    const { code, stdout, stderr } = await run(args, directory);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(
      "[STORE_OWNED] Stop it, or use another --store; one that hangs gives way to --take-over.",
    );
  }
});

test("told to, a command takes the store from a controller that hangs, which is fenced off", async () => {
  const directory = temporaryDirectory();
  const store = ownedStore(directory);
  fill(store, directory);
  const { code, stdout } = await run(["sandbox", "rm", "sb-1", "--take-over"], directory);
  expect({ code, stdout }).toEqual({ code: 0, stdout: "sb-1 is removed\n" });
  expect(() => store.setWanted("sb-2", "running")).toThrow(expect.objectContaining({ code: "FENCED" }));
});

test("a sandbox that never ran is stopped and removed", async () => {
  const directory = temporaryDirectory();
  const store = ownedStore(directory);
  fill(store, directory);
  store.close();
  const stopped = await run(["sandbox", "stop", "sb-1", "--json"], directory);
  expect(stopped).toMatchObject({ code: 0, stdout: '{"stopped":"sb-1"}\n' });
  const removed = await run(["sandbox", "rm", "sb-1"], directory);
  expect(removed).toMatchObject({ code: 0, stdout: "sb-1 is removed\n" });
  expect(removed.stderr).toContain("removing sb-1");
  expect((await run(["sandbox", "ls"], directory)).stdout).not.toContain("sb-1");
});

test("a store of a newer version, and one that is none, are said as what they are", async () => {
  const directory = temporaryDirectory();
  const store = ownedStore(directory);
  fill(store, directory);
  store.close();
  const database = new DatabaseSync(join(directory, "holdfast.db"));
  database.exec("PRAGMA user_version = 999");
  database.close();
  for (const args of [
    ["sandbox", "ls"],
    ["turn", "show", "t"],
    ["sandbox", "rm", "sb-1"],
  ]) {
    const { code, stderr } = await run(args, directory);
    expect(code).toBe(1);
    expect(stderr).toContain("[STORE_NEWER] Use that version.");
  }

  const broken = temporaryDirectory();
  writeFileSync(
    join(broken, "holdfast.db"),
    "this is no database, and it is long enough to be looked at\n".repeat(20),
  );
  const { code, stderr } = await run(["sandbox", "ls"], broken);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^holdfast: .*file is not a database.*\[STORE_ERROR\] .+\n$/);
});

test("a folder that can't be written is an error with its reason", async () => {
  const directory = temporaryDirectory();
  const file = join(directory, "file");
  writeFileSync(file, "");
  const inFile = await run(
    ["chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"],
    join(file, "store"),
  );
  expect(inFile.code).toBe(1);
  expect(inFile.stderr).toMatch(/^holdfast: .*ENOTDIR.*\[STORE_ERROR\]/);
  if (process.getuid?.() === 0) return;
  const closed = join(directory, "closed");
  mkdirSync(closed);
  chmodSync(closed, 0o500);
  const end = await run(
    ["chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"],
    join(closed, "store"),
  );
  expect(end.stderr).toMatch(/EACCES.*\[STORE_ERROR\]/);
});
