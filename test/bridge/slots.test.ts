import { spawn } from "node:child_process";
import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listSlot } from "../../bridge/census.ts";
import { realClock } from "../../bridge/clock.ts";
import { openSlot, reapSlots, SLOT_VARIABLE } from "../../bridge/slots.ts";
import { type BridgeConfig, DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const isRoot = process.getuid?.() === 0;
const NAMES = ["home", "data", "config", "state", "cache", "tmp"];

function configWith(users: BridgeConfig["users"], over: Partial<BridgeConfig> = {}): BridgeConfig {
  const directory = temporaryDirectory();
  for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name));
  return {
    storeId: "store-1",
    sandboxId: "box-1",
    isolation: users === null ? "process" : "container",
    controllerSocket: join(directory, "ctl.sock"),
    modelSocket: join(directory, "model.sock"),
    tokenFile: join(directory, "token"),
    stateDirectory: join(directory, "state"),
    slotsDirectory: join(directory, "slots"),
    workspace: join(directory, "workspace"),
    users,
    clis: [],
    limits: DEFAULT_LIMITS,
    ...over,
  };
}
const withUsers = () => configWith({ firstUid: randomInt(40_000, 50_000), gid: 40_000 });

test("a slot's directories are made for their owner only", async () => {
  const slot = await openSlot(configWith(null), "m-1");
  for (const path of [slot.root, ...NAMES.map((name) => join(slot.root, name))]) {
    expect(statSync(path).mode & 0o777, path).toBe(0o700);
  }
  expect(NAMES.map((name) => join(slot.root, name))).toEqual(
    expect.arrayContaining([slot.home, slot.data, slot.config, slot.state, slot.cache]),
  );
});

test("without users a slot is known by a mark with sandbox and member", async () => {
  const slot = await openSlot(configWith(null), "m-1");
  expect(slot).toMatchObject({
    user: null,
    markValue: "store-1/box-1/m-1",
    mark: { kind: "environment", variable: "HOLDFAST_SLOT", value: "store-1/box-1/m-1" },
  });
});

test("the working directory is the canonical one", async () => {
  const config = configWith(null);
  symlinkSync(config.workspace, `${config.workspace}-link`);
  const slot = await openSlot({ ...config, workspace: `${config.workspace}-link` }, "m-1");
  expect(slot.workspace).toBe(realpathSync(config.workspace));
});

test("a slot that a crash left half made is completed", async () => {
  const config = configWith(null);
  mkdirSync(join(config.slotsDirectory, "m-1", "home"), { recursive: true });
  const slot = await openSlot(config, "m-1");
  for (const name of NAMES) expect(existsSync(join(slot.root, name)), name).toBe(true);
});

test.runIf(isRoot)("each member gets a user of its own, and keeps it", async () => {
  const config = withUsers();
  const first = config.users?.firstUid ?? 0;
  const uids: Array<number | undefined> = [];
  for (const member of ["m-1", "m-2", "m-1", "m-3", "m-2"])
    uids.push((await openSlot(config, member)).user?.uid);
  expect(uids).toEqual([first, first + 1, first, first + 2, first + 1]);
});

test.runIf(isRoot)(
  "beyond the sandbox's range of users no slot is made, and those that are there go on",
  async () => {
    const config = withUsers();
    const firstUid = config.users?.firstUid ?? 0;
    const narrow = { ...config, users: { firstUid, lastUid: firstUid + 1, gid: 40_000 } };
    await openSlot(narrow, "m-1");
    await openSlot(narrow, "m-2");
    await expect(openSlot(narrow, "m-3")).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(existsSync(join(config.slotsDirectory, "m-3"))).toBe(false);
    expect((await openSlot(narrow, "m-2")).user?.uid).toBe(firstUid + 1);
  },
);

test.runIf(isRoot)("the user owns the slot and all in it, and is its mark", async () => {
  const config = withUsers();
  const slot = await openSlot(config, "m-1");
  const uid = config.users?.firstUid ?? 0;
  expect(slot.mark).toEqual({ kind: "uid", uid });
  for (const path of [slot.root, ...NAMES.map((name) => join(slot.root, name))]) {
    expect(lstatSync(path), path).toMatchObject({ uid, gid: 40_000 });
  }
});

test.runIf(isRoot)("members whose slots are made at once never share a user", async () => {
  const config = withUsers();
  const slots = await Promise.all(Array.from({ length: 12 }, (_, n) => openSlot(config, `m-${n % 6}`)));
  const uidOf = new Map(slots.map((slot) => [slot.member, slot.user?.uid]));
  expect(new Set(uidOf.values()).size).toBe(6);
  for (const slot of slots) expect(slot.user?.uid).toBe(uidOf.get(slot.member));
});

test.runIf(isRoot)(
  "a slot that a crash left before its user owned it is nobody's, least of all root's",
  async () => {
    const config = withUsers();
    const first = config.users?.firstUid ?? 0;
    await openSlot(config, "m-1");
    mkdirSync(join(config.slotsDirectory, "m-2", "home"), { recursive: true });
    chmodSync(join(config.slotsDirectory, "m-2"), 0o755);
    const slot = await openSlot(config, "m-2");
    expect(slot.user?.uid).toBe(first + 1);
    expect(statSync(slot.root)).toMatchObject({ uid: first + 1 });
    expect(statSync(slot.root).mode & 0o777).toBe(0o700);
    for (const name of NAMES) expect(statSync(join(slot.root, name))).toMatchObject({ uid: first + 1 });
  },
);

test("a slot that can't be made is an error of its own, and stops no later one", async () => {
  const config = configWith(null);
  writeFileSync(`${config.slotsDirectory}-file`, "");
  const broken = { ...config, slotsDirectory: `${config.slotsDirectory}-file` };
  await expect(openSlot(broken, "m-1")).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  expect((await openSlot(config, "m-1")).member).toBe("m-1");
});

test("before the first slot there is nothing to empty, with or without a directory", async () => {
  const config = configWith(null);
  expect(await reapSlots(config, realClock)).toEqual([]);
  expect(await reapSlots({ ...config, slotsDirectory: `${config.slotsDirectory}/none` }, realClock)).toEqual(
    [],
  );
});

test("what an earlier life left in any slot is ended; a container's end has done that already", async () => {
  const config = { ...configWith(null), sandboxId: `box-${randomUUID()}` };
  const slots = [await openSlot(config, "m-1"), await openSlot(config, "m-2")];
  const children = slots.map(({ markValue }) =>
    spawn("sleep", ["600"], { stdio: "ignore", env: { PATH: "/usr/bin:/bin", [SLOT_VARIABLE]: markValue } }),
  );
  onTestFinished(() => {
    for (const child of children) child.kill("SIGKILL");
  });
  const ends = children.map((child) => once(child, "exit"));
  expect(await reapSlots({ ...config, isolation: "container" }, realClock)).toEqual([]);
  for (const { mark } of slots) expect(await listSlot(mark)).toHaveLength(1);
  expect(await reapSlots(config, realClock)).toEqual([]);
  for (const end of ends) expect(await end).toEqual([null, "SIGKILL"]);
});

test("another store's sandbox of the same name is not this one's to end", async () => {
  const config = { ...configWith(null), sandboxId: `box-${randomUUID()}` };
  const other = await openSlot({ ...config, storeId: "store-2" }, "m-1");
  const env = { PATH: "/usr/bin:/bin", [SLOT_VARIABLE]: other.markValue };
  const child = spawn("sleep", ["600"], { stdio: "ignore", env });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "spawn");
  expect(await reapSlots(config, realClock)).toEqual([]);
  expect(await listSlot(other.mark)).toHaveLength(1);
});
