import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { simpleRig } from "../store/rig.ts";

const env = { DOCKER_HOST: DEAD_ENGINE };

test("a backup is made beside the store's owner, and checked; a second one to the same place is refused", async () => {
  const rig = simpleRig();
  rig.admit("t-1");
  const copies = temporaryDirectory();
  const file = join(copies, "copy.db");
  const made = await cli(["store", "backup", file], { store: rig.directory, env });
  expect(made).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/copy\.db: \d+ bytes, checked, in \d+ ms\n$/),
  });
  expect(made.stderr).toContain("copying the store");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const checked = await cli(["store", "check", file], { store: rig.directory, env });
  expect(checked).toMatchObject({ code: 0, stdout: expect.stringContaining("a backup of layout") });
  expect(checked.stdout).toContain("1 sandboxes, 1 members, 1 turns");
  expect(checked.stdout).toContain("no problem was found");
  const again = await cli(["store", "backup", file, "--json"], { store: rig.directory, env });
  expect(again.code).toBe(1);
  const { error } = JSON.parse(again.stderr.trim().split("\n").at(-1) ?? "") as { error: object };
  expect(error).toMatchObject({ code: "REQUEST_INVALID", message: `${file} exists and is left as it is` });
  expect(readdirSync(copies)).toEqual(["copy.db"]);
});

test("with --json each result is one value, and progress is on stderr", async () => {
  const rig = simpleRig();
  const file = join(temporaryDirectory(), "copy.db");
  const made = await cli(["store", "backup", file, "--json"], { store: rig.directory, env });
  expect(JSON.parse(made.stdout)).toEqual({ file, bytes: statSync(file).size, tookMs: expect.any(Number) });
  const checked = await cli(["store", "check", "--json"], { store: rig.directory, env });
  expect(JSON.parse(checked.stdout)).toMatchObject({
    ok: true,
    problems: [],
    isBackup: false,
    rows: { members: 1 },
  });
  for (const line of checked.stderr.trim().split("\n")) expect(JSON.parse(line)).toHaveProperty("progress");
});

test("a store with a problem is said to have it, and the exit code says so", async () => {
  const rig = simpleRig();
  rig.store.close();
  const database = new DatabaseSync(join(rig.directory, "holdfast.db"));
  database.exec("UPDATE members SET settled_turns = 7");
  database.close();
  const found = await cli(["store", "check"], { store: rig.directory, env });
  expect(found.code).toBe(1);
  expect(found.stdout).toContain("!! member: m-1 has settled 7 turns, its locator says 0");
  expect(found.stdout).toContain("1 problems");
  const json = await cli(["store", "check", "--json"], { store: rig.directory, env });
  expect(json.code).toBe(1);
  expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, problemCount: 1 });
});

test("without a store there is nothing to copy or check, and none is made", async () => {
  const store = join(temporaryDirectory(), "none");
  for (const words of [["backup", join(temporaryDirectory(), "copy.db")], ["check"]]) {
    const end = await cli(["store", ...words], { store, env });
    expect(end.code).toBe(1);
    expect(end.stderr).toContain("[STORE_ERROR]");
  }
  expect(existsSync(store)).toBe(false);
});
