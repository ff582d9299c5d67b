import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { readStore } from "../../../controller/cli/read-store.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { startPostgres } from "../../support/postgres.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

test("where there is no store, a look gives null and makes none", () => {
  const directory = join(temporaryDirectory(), "none");
  expect(readStore(readEnvironment({ store: directory }, {}), () => 1)).toBeNull();
  expect(existsSync(directory)).toBe(false);
});

test("a look works beside the owner, may not write, and lets go also when it fails", () => {
  const directory = temporaryDirectory();
  const environment = readEnvironment({ store: directory }, {});
  const owner = openStore({ directory, nowAt: () => 1, cliVersion: () => "1" });
  onTestFinished(() => owner.close());
  owner.createSandbox({ id: "sb-1", kind: "process", directory: "/d" });
  expect(readStore(environment, (store) => store.sandboxes().map(({ id }) => id))).toEqual(["sb-1"]);
  expect(() => readStore(environment, (store) => store.setWanted("sb-1", "removed"))).toThrow(TypeError);
  expect(() => readStore(environment, () => (1).toFixed(101))).toThrow(RangeError);
});

test("a store in a database is looked at beside its owner, and none is made by looking", async () => {
  const server = await startPostgres({ isDurable: false });
  onTestFinished(() => server.remove());
  const environment = readEnvironment({ store: temporaryDirectory() }, { HOLDFAST_STORE_URL: server.url() });
  expect(readStore(environment, () => 1)).toBeNull();
  expect(await server.look("SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'")).toEqual([]);
  const owner = openStore({ url: server.url(), nowAt: () => 1, cliVersion: () => "1" });
  onTestFinished(() => owner.close());
  owner.createSandbox({ id: "sb-1", kind: "process", directory: "/d" });
  expect(readStore(environment, (store) => store.sandboxes().map(({ id }) => id))).toEqual(["sb-1"]);
  expect(() => readStore(environment, (store) => store.setWanted("sb-1", "removed"))).toThrow(TypeError);
  const gone = readEnvironment({}, { HOLDFAST_STORE_URL: "postgres://me@127.0.0.1:1/db" });
  expect(() => readStore(gone, () => 1)).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
});
