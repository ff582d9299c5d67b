import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { backupStore } from "../../../controller/store/backup.ts";
import { checkStore } from "../../../controller/store/check.ts";
import { MIGRATIONS } from "../../../controller/store/migrations.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { AT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { LAYOUTS, storeOfLayout } from "./layouts.ts";
import { context, delivered, ended, numbered, session, simpleRig } from "./rig.ts";

const failed = (code: string) => expect.objectContaining({ code });
const nowAt = () => AT;

/** A folder that lives in no store, for the copies. */
function folder(): string {
  const path = join(temporaryDirectory(), "copies");
  mkdirSync(path);
  return path;
}

/** A folder with the backup in the place of a store, as one that brings it back would leave it. */
async function broughtBack(file: string): Promise<string> {
  const directory = join(temporaryDirectory(), "back");
  mkdirSync(directory, { mode: 0o700 });
  await copyFile(file, join(directory, "holdfast.db"));
  return directory;
}

function open(directory: string) {
  const store = openStore({ directory, nowAt, cliVersion: () => "1" });
  onTestFinished(() => store.close());
  return store;
}

test("a copy of a store in use is one whole file, its owner's alone, with everything in it", async () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.apply([context("t-1", "NEW", "ses_1"), delivered("t-1"), ended("t-1")]);
  const copies = folder();
  const file = join(copies, "a.db");
  const progress: Array<[number, number]> = [];
  const { bytes } = await backupStore({
    directory: rig.directory,
    file,
    nowAt,
    onProgress: (done, all) => progress.push([done, all]),
  });
  expect(readdirSync(copies)).toEqual(["a.db"]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(file).size).toBe(bytes);
  for (const [done, all] of progress) expect(done).toBeLessThanOrEqual(all);
  const check = checkStore(file);
  expect(check).toMatchObject({ problems: [], isBackup: true, layout: MIGRATIONS.length });
  expect(readdirSync(copies)).toEqual(["a.db"]);
  const back = open(await broughtBack(file));
  expect(back.member("m-1")).toEqual(rig.store.member("m-1"));
  expect(back.turn("t-1")).toEqual(rig.store.turn("t-1"));
  expect(back.eventsOf("t-1")).toEqual(rig.store.eventsOf("t-1"));
});

test("what is written while it is copied is wholly in it or wholly not, and does not begin it anew", async () => {
  const rig = simpleRig();
  const filler = new DatabaseSync(join(rig.directory, "holdfast.db"));
  filler.exec("PRAGMA synchronous = OFF; BEGIN");
  const insert = filler.prepare("INSERT INTO audit VALUES (1, 'filler', 's', ?)");
  for (let at = 0; at < 6000; at += 1) insert.run("x".repeat(1500));
  filler.exec("COMMIT");
  filler.close();
  const file = join(folder(), "a.db");
  let written = 0;
  let lastDone = 0;
  await backupStore({
    directory: rig.directory,
    file,
    nowAt,
    onProgress(done) {
      expect(done).toBeGreaterThan(lastDone);
      lastDone = done;
      written += 1;
      // Two rows in one step.
      rig.store.createSandbox({ id: `new-${written}`, kind: "docker", directory: "/d" });
    },
  });
  expect(written).toBeGreaterThan(3);
  expect(rig.store.sandboxes()).toHaveLength(1 + written);
  const copy = new DatabaseSync(file, { readOnly: true });
  const count = (sql: string) => copy.prepare(sql).get()?.n;
  expect(count("SELECT count(*) AS n FROM sandboxes")).toBe(1);
  expect(count("SELECT count(*) AS n FROM audit WHERE what = 'sandbox.create'")).toBe(1);
  expect(count("SELECT count(*) AS n FROM audit WHERE what = 'filler'")).toBe(6000);
  copy.close();
  expect(checkStore(file).problems).toEqual([]);
});

test.for(LAYOUTS)(
  "a store of layout %i is copied as it is, and brought up when it is brought back",
  async (layout) => {
    const directory = storeOfLayout(layout);
    const file = join(folder(), "a.db");
    await backupStore({ directory, file, nowAt });
    expect(checkStore(file)).toMatchObject({ layout, isBackup: true, problems: [] });
    const back = open(await broughtBack(file));
    expect(back.member("m-1")?.locator).toMatchObject({ nativeId: "ses_a", settledTurns: 3 });
  },
);

test("nothing that exists is overwritten, also when it appears meanwhile, and nothing half is left", async () => {
  const rig = simpleRig();
  const copies = folder();
  const file = join(copies, "a.db");
  const run = (onCopied = nowAt) => backupStore({ directory: rig.directory, file, nowAt: onCopied });
  const appear = () => {
    writeFileSync(file, "mine");
    return AT;
  };
  await expect(run(appear)).rejects.toEqual(failed("REQUEST_INVALID"));
  expect([readdirSync(copies), readFileSync(file, "utf8")]).toEqual([["a.db"], "mine"]);
  await expect(run()).rejects.toEqual(failed("REQUEST_INVALID"));
  expect([readdirSync(copies), readFileSync(file, "utf8")]).toEqual([["a.db"], "mine"]);
  const dangling = join(copies, "link.db");
  symlinkSync(join(copies, "elsewhere"), dangling);
  await expect(backupStore({ directory: rig.directory, file: dangling, nowAt })).rejects.toEqual(
    failed("REQUEST_INVALID"),
  );
  expect(readdirSync(copies)).toEqual(["a.db", "link.db"]);
  await expect(
    backupStore({ directory: rig.directory, file: join(rig.directory, "holdfast.db"), nowAt }),
  ).rejects.toEqual(failed("REQUEST_INVALID"));
});

test("a folder that is not there, a store that is none, and one that is newer are told", async () => {
  const rig = simpleRig();
  const copies = folder();
  const to = (directory: string, file: string) => backupStore({ directory, file, nowAt });
  await expect(to(rig.directory, join(copies, "no", "a.db"))).rejects.toEqual(failed("STORE_ERROR"));
  await expect(to(copies, join(copies, "a.db"))).rejects.toEqual(failed("STORE_ERROR"));
  writeFileSync(join(copies, "holdfast.db"), "no database, and long enough to be looked at. ".repeat(50));
  await expect(to(copies, join(copies, "a.db"))).rejects.toEqual(failed("STORE_ERROR"));
  rig.store.close();
  const newer = new DatabaseSync(join(rig.directory, "holdfast.db"));
  newer.exec("PRAGMA user_version = 999");
  newer.close();
  await expect(to(rig.directory, join(copies, "a.db"))).rejects.toEqual(failed("STORE_NEWER"));
  expect(existsSync(join(copies, "a.db"))).toBe(false);
  expect(readdirSync(copies)).toEqual(["holdfast.db"]);
});

test("a store that is damaged is not copied as if it were whole", async () => {
  const rig = simpleRig();
  rig.store.close();
  const path = join(rig.directory, "holdfast.db");
  const database = new DatabaseSync(path);
  const { rootpage } = database
    .prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'members_by_sandbox'")
    .get() as {
    rootpage: number;
  };
  const { page_size: pageSize } = database.prepare("PRAGMA page_size").get() as { page_size: number };
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  const bytes = readFileSync(path);
  bytes.fill(0x55, (rootpage - 1) * pageSize + 4, rootpage * pageSize);
  writeFileSync(path, bytes);
  const copies = folder();
  await expect(backupStore({ directory: rig.directory, file: join(copies, "a.db"), nowAt })).rejects.toEqual(
    failed("STORE_DAMAGED"),
  );
  expect(readdirSync(copies)).toEqual([]);
});

test("a store that was brought back is above every fence of its lost life", async () => {
  const rig = simpleRig();
  const file = join(folder(), "a.db");
  await backupStore({ directory: rig.directory, file, nowAt });
  for (let life = 0; life < 5; life += 1) rig.reopen();
  const lost = rig.store.fence;
  const directory = await broughtBack(file);
  const first = open(directory);
  expect(first.fence).toBeGreaterThan(lost);
  first.close();
  expect(open(directory).fence).toBe(first.fence + 1);
});

test("what a store that was brought back left open is unknown when its end was dropped; it follows each sandbox from there", async () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.apply([context("t-1", "NEW", "ses_1"), delivered("t-1")]);
  const file = join(folder(), "a.db");
  await backupStore({ directory: rig.directory, file, nowAt });
  // Time goes by: the turn ends, and another one begins that the copy never heard of.
  rig.apply([ended("t-1", { session: session("ses_1") })]);
  rig.admit("t-2");
  rig.store.close();

  const back = open(await broughtBack(file));
  const head = { journalId: "journal-box", epoch: 1, seq: 41, acked: 40 };
  const { applied, lost } = back.follow("box", head);
  expect(applied).toBe(40);
  expect(lost).toEqual([{ turn: "t-1", settlement: expect.objectContaining({ outcome: "unknown" }) }]);
  expect(lost[0]?.settlement.error?.message).toContain("older than what the bridge was told to forget");
  // What is still told of the other turn, and of members that it forgot, changes nothing and stops nothing.
  const member = {
    type: "member.process" as const,
    member: "m-9",
    processGeneration: 1,
    state: "ready" as const,
    detail: "",
  };
  expect(() => back.apply("box", numbered([delivered("t-2"), ended("t-2"), member], 41))).not.toThrow();
  expect(back.sandbox("box")?.applied).toBe(43);
  expect(back.turn("t-2")).toBeNull();
  expect(back.follow("box", { ...head, seq: 43, acked: 43 })).toEqual({ applied: 43, lost: [] });
});

test("what belongs to another sandbox is refused to a bridge also after a restore", async () => {
  const rig = simpleRig();
  rig.box("other");
  rig.member("m-2", "other");
  rig.admit("t-1");
  const file = join(folder(), "a.db");
  await backupStore({ directory: rig.directory, file, nowAt });
  const back = open(await broughtBack(file));
  back.follow("other", { journalId: "journal-other", epoch: 1, seq: 0, acked: 0 });
  for (const event of [
    delivered("t-1", "m-1"),
    delivered("t-1", "m-2"),
    delivered("t-1", "m-9"),
    delivered("t-9", "m-1"),
  ])
    expect(() => back.apply("other", numbered([event]))).toThrow(failed("FRAME_INVALID"));
});
