import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { sandboxChecks, storeChecks } from "../../../controller/cli/doctor-store.ts";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

function makeStore(): { directory: string; store: ReturnType<typeof openStore> } {
  const directory = temporaryDirectory();
  const store = openStore({ directory, nowAt: () => 1, cliVersion: () => "1" });
  onTestFinished(() => store.close());
  return { directory, store };
}

const command = (words: string) => `holdfast ${words}`;

test("a store that is not there yet will be made, or can't be, with the reason", async () => {
  const directory = temporaryDirectory();
  expect(await storeChecks(join(directory, "a", "b"))).toMatchObject([{ state: "ok" }]);
  writeFileSync(join(directory, "file"), "");
  expect(await storeChecks(join(directory, "file", "b"))).toMatchObject([
    { state: "failed", detail: expect.stringContaining("is no folder") as string },
  ]);
  if (process.getuid?.() === 0) return;
  mkdirSync(join(directory, "closed"), { mode: 0o500 });
  expect(await storeChecks(join(directory, "closed", "b"))).toMatchObject([{ state: "failed" }]);
});

test("a store in order is ok, and one that a controller owns is no fault", async () => {
  const { directory, store } = makeStore();
  expect(await storeChecks(directory)).toMatchObject([
    { state: "ok", detail: "another controller owns this store" },
  ]);
  store.close();
  expect(await storeChecks(directory)).toMatchObject([
    { state: "ok", detail: `${directory} can be owned and written` },
  ]);
});

test("a folder that others can read is a warning with its fix", async () => {
  const { directory, store } = makeStore();
  store.close();
  chmodSync(directory, 0o755);
  expect(await storeChecks(directory)).toMatchObject([
    { state: "warning", fix: `chmod 700 ${directory}` },
    { state: "ok" },
  ]);
});

test("a corrupt store and a newer one fail, each with a fix that is not this very check", async () => {
  const corrupt = temporaryDirectory();
  writeFileSync(
    join(corrupt, "holdfast.db"),
    "not a database at all, long enough to be read as one ".repeat(40),
  );
  const [check] = await storeChecks(corrupt);
  expect(check).toMatchObject({
    state: "failed",
    detail: expect.stringContaining("not a database") as string,
  });
  expect(check?.fix).toContain("backup");
  expect(sandboxChecks(readEnvironment({ store: corrupt }, {}), command)).toEqual([]);

  const { directory, store } = makeStore();
  store.close();
  const database = new DatabaseSync(join(directory, "holdfast.db"));
  database.exec("PRAGMA user_version = 999");
  database.close();
  expect(await storeChecks(directory)).toMatchObject([{ state: "failed", fix: "Use that version." }]);
});

test("each sandbox that is not ready is named with its reason; removed ones are not", () => {
  const { directory, store } = makeStore();
  for (const id of ["sb-1", "sb-2", "sb-3"]) store.createSandbox({ id, kind: "docker", directory: "/d" });
  store.setUnready("sb-1", ["pin 3"]);
  store.setUnready("sb-2", ["pin 5"]);
  store.setWanted("sb-2", "removed");
  expect(sandboxChecks(readEnvironment({ store: directory }, {}), command)).toMatchObject([
    { state: "failed", detail: expect.stringContaining("sb-1 is not ready: ") as string },
  ]);
});
