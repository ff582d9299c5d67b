// State is copied between two slots by real children of their users (as root two other users, else our own).
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { realClock } from "../../bridge/clock.ts";
import { runInSlot } from "../../bridge/process.ts";
import { copySlotState } from "../../bridge/slot-copy.ts";
import { openSlot, type Slot } from "../../bridge/slots.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const isRoot = process.getuid?.() === 0;
const PATH = "data/cli";

async function twoSlots(): Promise<{ from: Slot; to: Slot; beside: string }> {
  const directory = temporaryDirectory();
  chmodSync(directory, 0o755);
  for (const name of ["slots", "workspace", "beside"]) mkdirSync(join(directory, name));
  const config = {
    storeId: "store-1",
    sandboxId: "box-1",
    isolation: isRoot ? ("container" as const) : ("process" as const),
    controllerSocket: "/none",
    modelSocket: "/none",
    tokenFile: "/none",
    stateDirectory: "/none",
    slotsDirectory: join(directory, "slots"),
    workspace: join(directory, "workspace"),
    users: isRoot ? { firstUid: randomInt(60_001, 64_000), gid: 50_000 } : null,
    clis: [],
    limits: DEFAULT_LIMITS,
  };
  return {
    from: await openSlot(config, "m-1"),
    to: await openSlot(config, "m-2"),
    beside: join(directory, "beside"),
  };
}

/** As the slot's own user, who may be hostile. */
async function asSlot(slot: Slot, script: string): Promise<string> {
  const { code, stdout, stderr } = await runInSlot(
    slot,
    ["/bin/sh", "-c", `cd "$1"; ${script}`, "sh", slot.root],
    {
      input: "",
      maxBytes: 1_000_000,
      limitMs: 10_000,
    },
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout;
}

const copy = (from: Slot, to: Slot, except: readonly string[] = []) =>
  copySlotState({ from, to, path: PATH, except, clock: realClock });

test("a copy has the same bytes, links and names, and is the new slot's user's alone", async () => {
  const { from, to } = await twoSlots();
  await asSlot(
    from,
    `umask 022; mkdir -p ${PATH}/deep/log other; printf 'a\\0b\\377' >${PATH}/db; printf x >"${PATH}/deep/Größe 🦑
x"; ln -s ../db ${PATH}/deep/link; printf l >${PATH}/db-shm; printf l >${PATH}/deep/log/x; printf o >other/file; chmod 755 ${PATH}/db`,
  );
  const before = await asSlot(from, "find . | sort; cat data/cli/db");
  await copy(from, to, ["*-shm", `${PATH}/deep/log`]);
  const found = await asSlot(to, "find data -mindepth 1 -print0 | sort -z | tr '\\0' '|'; ls");
  const wanted = ["", "/db", "/deep", "/deep/Größe 🦑\nx", "/deep/link"].map((path) => `${PATH}${path}|`);
  expect(found).toBe(`${wanted.join("")}cache\nconfig\ndata\nhome\nstate\ntmp\n`);
  expect(readFileSync(join(to.root, PATH, "db"))).toEqual(Buffer.from([97, 0, 98, 255]));
  expect(readlinkSync(join(to.root, PATH, "deep/link"))).toBe("../db");
  for (const name of ["", "db", "deep"]) {
    const { uid, mode } = statSync(join(to.root, PATH, name));
    if (to.user !== null) expect(uid).toBe(to.user.uid);
    expect(mode & 0o077).toBe(0);
  }
  expect(await asSlot(from, "find . | sort; cat data/cli/db")).toBe(before);
});

test("what stood there is replaced: a copy may be made again", async () => {
  const { from, to } = await twoSlots();
  await asSlot(from, `mkdir -p ${PATH}; printf new >${PATH}/db`);
  await asSlot(to, `mkdir -p ${PATH}; printf old >${PATH}/db; printf old >${PATH}/left`);
  await copy(from, to);
  await copy(from, to);
  expect(await asSlot(to, `cat ${PATH}/db; ls ${PATH}`)).toBe("newdb\n");
});

test("nothing to copy is a lost conversation, whatever stands in its place", async () => {
  const { from, to } = await twoSlots();
  await expect(copy(from, to)).rejects.toMatchObject({ code: "CONTEXT_LOST" });
  await asSlot(from, `printf x >${PATH}`);
  await expect(copy(from, to)).rejects.toMatchObject({ code: "CONTEXT_LOST" });
});

test("a link in the folder's place is followed by nobody, and files that the reader may not read are no part of a copy", async () => {
  const { from, to, beside } = await twoSlots();
  writeFileSync(join(beside, "secret"), "s");
  symlinkSync(beside, join(from.root, PATH));
  await expect(copy(from, to)).rejects.toMatchObject({ code: "CONTEXT_LOST" });
  expect(existsSync(join(to.root, PATH))).toBe(false);
  if (!isRoot) return;
  rmSync(join(from.root, PATH));
  await asSlot(from, `mkdir -p ${PATH}`);
  writeFileSync(join(from.root, PATH, "of-root"), "s", { mode: 0o600 });
  await expect(copy(from, to)).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: expect.stringContaining("can't be read"),
  });
});

test("state that changes while it is copied is no copy: it is made again, and given up in the end", async () => {
  const { from, to } = await twoSlots();
  await asSlot(from, `mkdir -p ${PATH}; printf start >${PATH}/db; chmod 666 ${PATH}/db`);
  const path = join(from.root, PATH, "db");
  // Changes in the moment in which the copy is made for the last time; then it holds still, or never does.
  const writes = setInterval(() => appendFileSync(path, "x"), 1);
  try {
    await expect(copy(from, to)).rejects.toMatchObject({ code: "MEMBER_BUSY" });
  } finally {
    clearInterval(writes);
  }
  expect(existsSync(join(to.root, PATH))).toBe(false);
  await copy(from, to);
  expect(readFileSync(join(to.root, PATH, "db"))).toEqual(readFileSync(path));
});

test("a new slot that can't be written is an error that may pass", { skip: !isRoot }, async () => {
  const { from, to } = await twoSlots();
  await asSlot(from, `mkdir -p ${PATH}; printf x >${PATH}/db`);
  await asSlot(to, "chmod 500 data");
  await expect(copy(from, to)).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: expect.stringContaining("can't be written"),
  });
});

test("a disk that is full is named as such, and another try finds nothing half copied", {
  skip: !isRoot,
}, async () => {
  const { from, to } = await twoSlots();
  const disk = join(to.root, "data");
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=64k,uid=${to.user?.uid},mode=700`, "tmpfs", disk]);
  try {
    await asSlot(from, `mkdir -p ${PATH}; head -c 1000000 /dev/zero >${PATH}/db`);
    await expect(copy(from, to)).rejects.toMatchObject({ code: "DISK_FULL" });
    expect(await asSlot(to, "ls data/cli 2>/dev/null || :")).toBe("");
    await asSlot(from, `printf x >${PATH}/db`);
    await copy(from, to);
    expect(await asSlot(to, `cat ${PATH}/db`)).toBe("x");
  } finally {
    execFileSync("umount", [disk]);
  }
});
