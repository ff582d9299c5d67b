// Files in a slot, by a real child of the slot's user (as root another user, else our own).
import { randomInt } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listSlot, reapSlot } from "../../bridge/census.ts";
import { realClock } from "../../bridge/clock.ts";
import { runInSlot } from "../../bridge/process.ts";
import { readSlotFile, writeSlotFile } from "../../bridge/slot-files.ts";
import { openSlot, type Slot } from "../../bridge/slots.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until } from "../support/until.ts";

const isRoot = process.getuid?.() === 0;

/** A slot with a user of its own where that can be had; `beside` is a directory that only we may enter. */
async function slotOf(): Promise<{ slot: Slot; beside: string }> {
  const directory = temporaryDirectory();
  chmodSync(directory, 0o755);
  for (const name of ["slots", "workspace", "beside"]) mkdirSync(join(directory, name));
  chmodSync(join(directory, "beside"), 0o700);
  const slot = await openSlot(
    {
      storeId: "store-1",
      sandboxId: "box-1",
      isolation: isRoot ? "container" : "process",
      controllerSocket: "/none",
      modelSocket: "/none",
      tokenFile: "/none",
      stateDirectory: "/none",
      slotsDirectory: join(directory, "slots"),
      workspace: join(directory, "workspace"),
      users: isRoot ? { firstUid: randomInt(60_001, 64_000), gid: 50_000 } : null,
      clis: [],
      limits: DEFAULT_LIMITS,
    },
    "m-1",
  );
  onTestFinished(async () => {
    expect(await reapSlot(slot.mark, realClock, 10_000)).toEqual([]);
  });
  return { slot, beside: join(directory, "beside") };
}

/** A command as the slot's own user, who may be hostile. */
async function asSlot(slot: Slot, script: string, ...args: string[]): Promise<string> {
  const options = { input: "", maxBytes: 100_000, limitMs: 10_000 };
  const { code, stdout, stderr } = await runInSlot(slot, ["/bin/sh", "-ec", script, "sh", ...args], options);
  expect([code, stderr]).toEqual([0, ""]);
  return stdout;
}

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
const refused = expect.objectContaining({ code: "CLI_NOT_READY" });

test("what is written is read again, byte for byte, and belongs to the slot's user alone", async () => {
  const { slot } = await slotOf();
  const path = join(slot.config, "deep", "er", "config.json");
  for (const content of ["", "{}\n", "Größe 🦑\r\n\u0000$HOME `id` \\n", "x".repeat(3_000_000)]) {
    await writeSlotFile(slot, path, content);
    expect(await readSlotFile(slot, path, 4_000_000)).toBe(content);
  }
  expect([modeOf(path), modeOf(join(slot.config, "deep", "er")), modeOf(join(slot.config, "deep"))]).toEqual([
    "600",
    "700",
    "700",
  ]);
  const owner = slot.user?.uid ?? process.getuid?.();
  expect([statSync(path).uid, statSync(join(slot.config, "deep")).uid]).toEqual([owner, owner]);
  expect(readdirSync(join(slot.config, "deep", "er"))).toEqual(["config.json"]);
});

test("any path is a path, whatever its names look like", async () => {
  const { slot } = await slotOf();
  const names = [
    "with blanks  in",
    'it\'s "quoted"',
    "-rf",
    "--help",
    "line\nfeed",
    "feed at the end\n",
    "$(id)`id`$HOME;&|*?[a]",
    "…🦑",
    ".new",
  ];
  for (const name of names) {
    const path = join(slot.home, name, name);
    await writeSlotFile(slot, path, name);
    expect([name, await readSlotFile(slot, path, 1000)]).toEqual([name, name]);
    expect(readFileSync(path, "utf8")).toBe(name);
  }
  expect(readdirSync(slot.home).toSorted()).toEqual(names.toSorted());
});

test("a path that is not absolute is a mistake of the caller", async () => {
  const { slot } = await slotOf();
  for (const path of ["a", "-a", "./a", ""]) {
    await expect(writeSlotFile(slot, path, "")).rejects.toThrow(TypeError);
    await expect(readSlotFile(slot, path, 10)).rejects.toThrow(TypeError);
  }
});

test("a file with the same content is left as it was, but for a mode that others could read", async () => {
  const { slot } = await slotOf();
  const path = join(slot.config, "settings.json");
  await writeSlotFile(slot, path, "same");
  utimesSync(path, 1000, 1000);
  chmodSync(path, 0o644);
  const { ino } = statSync(path);
  await writeSlotFile(slot, path, "same");
  expect(statSync(path)).toMatchObject({ ino, mtimeMs: 1_000_000 });
  expect(modeOf(path)).toBe("600");
  await writeSlotFile(slot, path, "other");
  expect(statSync(path).ino).not.toBe(ino);
});

test("who reads meanwhile sees the old one or the new one, whole", async () => {
  const { slot } = await slotOf();
  const path = join(slot.config, "settings.json");
  const contents = ["a", "b"].map((letter) => letter.repeat(2_000_000));
  await writeSlotFile(slot, path, contents[0] ?? "");
  let isDone = false;
  const seen = new Set<string>();
  const reading = (async () => {
    while (!isDone) {
      const content = readFileSync(path, "utf8");
      seen.add(`${content.length} ${new Set(content).size} ${content[0]}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  for (let round = 1; round <= 12; round += 1) await writeSlotFile(slot, path, contents[round % 2] ?? "");
  isDone = true;
  await reading;
  expect([...seen].toSorted()).toEqual(["2000000 1 a", "2000000 1 b"]);
});

test("a write that is killed half way leaves the old one, and nothing in the way of the next", async () => {
  const { slot } = await slotOf();
  const path = join(slot.config, "settings.json");
  await writeSlotFile(slot, path, "old");
  // Its stop is asked for when it has begun to write: everything of the slot is ended, as at a launch.
  const writing = writeSlotFile(slot, path, "n".repeat(200_000_000)).then(
    () => "written",
    ({ code }: { code: string }) => code,
  );
  await until("its beginning", () => {
    const hasBegun = existsSync(`${path}.new`) && statSync(`${path}.new`).size > 0;
    // At once: on a busy machine it would be through before it is found and ended.
    if (hasBegun) for (const pid of grandchildren()) process.kill(pid, "SIGSTOP");
    return hasBegun;
  });
  expect(await reapSlot(slot.mark, realClock, 5000)).toEqual([]);
  expect(await writing).toBe("CLI_NOT_READY");
  expect(await readSlotFile(slot, path, 1000)).toBe("old");
  expect(existsSync(`${path}.new`)).toBe(true);
  await writeSlotFile(slot, path, "new");
  expect(await readSlotFile(slot, path, 1000)).toBe("new");
  expect(readdirSync(slot.config)).toEqual(["settings.json"]);
});

/** Of this process: a shell in the slot is its child, and what it runs is the shell's. */
function grandchildren(): number[] {
  const childrenOf = (pid: number) =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  return childrenOf(process.pid).flatMap(childrenOf);
}

test("a file that is too large gives its end, and one of a byte too many too", async () => {
  const { slot } = await slotOf();
  const path = join(slot.home, "history.jsonl");
  await writeSlotFile(slot, path, `${"x".repeat(5_000_000)}\nlast line\n`);
  expect(await readSlotFile(slot, path, 10)).toBe("last line\n");
  expect(await readSlotFile(slot, path, 11)).toBe("\nlast line\n");
  expect((await readSlotFile(slot, path, 1_000_000))?.length).toBe(1_000_000);
  await writeSlotFile(slot, path, "ä12");
  // The cut goes through a character.
  expect(await readSlotFile(slot, path, 3)).toBe("\ufffd12");
});

test("no file is null, in a directory that is not there either; whatever else is in its place is an error", async () => {
  const { slot } = await slotOf();
  const path = join(slot.home, "file");
  expect(await readSlotFile(slot, path, 10)).toBeNull();
  expect(await readSlotFile(slot, join(path, "none", "none"), 10)).toBeNull();
  await writeSlotFile(slot, path, "");
  expect(await readSlotFile(slot, join(path, "below a file"), 10)).toBeNull();
  symlinkSync("/nowhere/at-all", join(slot.home, "dangling"));
  expect(await readSlotFile(slot, join(slot.home, "dangling"), 10)).toBeNull();
  await asSlot(slot, 'mkfifo "$1/pipe"', slot.home);
  for (const name of [".", "pipe"])
    await expect(readSlotFile(slot, join(slot.home, name), 10)).rejects.toEqual(refused);
});

test.runIf(isRoot)(
  "what the slot's user may not look at is an error, and no proof that there is none",
  async () => {
    const { slot, beside } = await slotOf();
    writeFileSync(join(beside, "secret"), "secret");
    for (const name of ["secret", "none"]) {
      await expect(readSlotFile(slot, join(beside, name), 10)).rejects.toEqual(refused);
      await expect(writeSlotFile(slot, join(beside, name), "x")).rejects.toEqual(refused);
    }
    await asSlot(slot, 'touch "$1/mine"; chmod 000 "$1/mine"', slot.home);
    await expect(readSlotFile(slot, join(slot.home, "mine"), 10)).rejects.toEqual(refused);
    expect(readdirSync(beside)).toEqual(["secret"]);
  },
);

test.runIf(isRoot)(
  "links that the slot's user has planted lead to nothing that it could not reach itself",
  async () => {
    const { slot, beside } = await slotOf();
    writeFileSync(join(beside, "target"), "ours", { mode: 0o600 });
    const plant = 'rm -rf "$2"; ln -s "$1" "$2"';
    const path = join(slot.config, "settings.json");
    for (const link of [path, `${path}.new`]) {
      await asSlot(slot, plant, join(beside, "target"), link);
      await writeSlotFile(slot, path, "config");
      expect(readFileSync(join(beside, "target"), "utf8")).toBe("ours");
      expect([lstatSync(path).isSymbolicLink(), readFileSync(path, "utf8")]).toEqual([false, "config"]);
    }
    // A directory that is a link: nothing is written behind it.
    const directory = join(slot.config, "linked");
    await asSlot(slot, plant, beside, directory);
    await expect(writeSlotFile(slot, join(directory, "x"), "config")).rejects.toEqual(refused);
    await expect(readSlotFile(slot, join(directory, "target"), 10)).rejects.toEqual(refused);
    expect(readlinkSync(directory)).toBe(beside);
    expect(readdirSync(beside)).toEqual(["target"]);
  },
);

test("a link in the file's place is replaced also when what it leads to has the same content", async () => {
  const { slot } = await slotOf();
  const path = join(slot.config, "settings.json");
  await asSlot(slot, 'printf same >"$1/else"; ln -s else "$1/settings.json"', slot.config);
  await writeSlotFile(slot, path, "same");
  expect(lstatSync(path).isSymbolicLink()).toBe(false);
});

test("a pipe or a directory in the way is a refusal or is replaced, and never a wait or a file somewhere else", async () => {
  const { slot } = await slotOf();
  const path = join(slot.config, "settings.json");
  await asSlot(slot, 'mkfifo "$1" "$1.new"', path);
  await writeSlotFile(slot, path, "config");
  expect(readFileSync(path, "utf8")).toBe("config");
  await asSlot(slot, 'rm "$1"; mkdir "$1"', path);
  await expect(writeSlotFile(slot, path, "config")).rejects.toEqual(refused);
  expect(readdirSync(path)).toEqual([]);
  await asSlot(slot, 'rm -r "$1" "$1.new"; mkdir "$1.new"', path);
  await expect(writeSlotFile(slot, path, "config")).rejects.toEqual(refused);
  expect(await listSlot(slot.mark)).toEqual([]);
});
