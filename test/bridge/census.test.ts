import { type ChildProcess, spawn } from "node:child_process";
import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  killEntry,
  listSlot,
  readEntry,
  reapSlot,
  residentBytes,
  type SlotMark,
  signalIfThere,
} from "../../bridge/census.ts";
import { realClock } from "../../bridge/clock.ts";
import { standIn } from "../support/stand-in.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";

const isRoot = process.getuid?.() === 0;
const VARIABLE = "HOLDFAST_TEST_SLOT";

function ownMark(): SlotMark & { kind: "environment" } {
  return { kind: "environment", variable: VARIABLE, value: `box/${randomUUID()}` };
}
function ownUser(): SlotMark & { kind: "uid" } {
  return { kind: "uid", uid: randomInt(40_000, 50_000) };
}

/** Starts a program in the slot of a mark. The slot is emptied when the test is over. */
function start(mark: SlotMark, command: readonly string[]): ChildProcess {
  const [file = "", ...args] = command;
  onTestFinished(async () => {
    expect(await reapSlot(mark, realClock, 10_000)).toEqual([]);
  });
  return spawn(file, args, {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: "/usr/bin:/bin", ...(mark.kind === "environment" && { [mark.variable]: mark.value }) },
    ...(mark.kind === "uid" && { uid: mark.uid, gid: mark.uid }),
  });
}

async function firstLine(child: ChildProcess): Promise<string> {
  const stdout = child.stdout;
  if (stdout === null) throw new Error("no stdout");
  const [chunk] = await within("a line of the child", once(stdout, "data"));
  return String(chunk);
}

async function pids(mark: SlotMark): Promise<number[]> {
  return (await listSlot(mark)).map(({ pid }) => pid);
}

test("processes are found by their mark, and those with another value are not", async () => {
  const [mine, other] = [ownMark(), ownMark()];
  const child = start(mine, standIn("forever.ts"));
  const stranger = start(other, standIn("forever.ts"));
  await Promise.all([firstLine(child), firstLine(stranger)]);
  expect(await pids(mine)).toEqual([child.pid]);
  expect(await pids(other)).toEqual([stranger.pid]);
  expect(await pids({ ...mine, value: mine.value.slice(0, -1) })).toEqual([]);
});

test("children in other sessions, orphans and children without environment are found by the mark", async () => {
  const mark = ownMark();
  const child = start(mark, standIn("forks-and-escapes.ts"));
  const { setsid, orphan, bare } = JSON.parse(await firstLine(child));
  expect(new Set(await pids(mark))).toEqual(new Set([child.pid, setsid, orphan, bare]));
});

test.runIf(isRoot)("all of them are found by their user, whatever their environment says", async () => {
  const mark = ownUser();
  const child = start(mark, standIn("forks-and-escapes.ts"));
  const { setsid, orphan, bare } = JSON.parse(await firstLine(child));
  expect(new Set(await pids(mark))).toEqual(new Set([child.pid, setsid, orphan, bare]));
});

test("what has ended and was not waited for is no process of the slot any more", async () => {
  const mark = ownMark();
  const child = start(mark, standIn("leaves-a-zombie.sh"));
  await until("the zombie is alone with its parent", async () => (await pids(mark)).length === 1);
  expect(await pids(mark)).toEqual([child.pid]);
});

test("a name with blanks and parentheses is read whole", async () => {
  const path = join(temporaryDirectory(), "a) (b c");
  copyFileSync("/bin/sleep", path);
  const child = start(ownMark(), [path, "600"]);
  const entry = await until("the program runs", async () => {
    const now = await readEntry(child.pid ?? 0);
    return now?.command === "a) (b c" && now;
  });
  expect(entry).toMatchObject({ pid: child.pid, parent: process.pid });
  expect(entry.startTicks).toMatch(/^\d+$/);
  expect(["S", "R", "D"]).toContain(entry.state);
});

test("a process that is gone is nobody", async () => {
  const child = start(ownMark(), ["/bin/sh", "-c", "exit 0"]);
  await once(child, "exit");
  expect(await readEntry(child.pid ?? 0)).toBeNull();
  expect(signalIfThere(child.pid ?? 0, "SIGKILL")).toBe(false);
});

test("a reused number is spared: the start time is compared before the kill", async () => {
  const child = start(ownMark(), ["/bin/cat"]);
  const entry = await readEntry(child.pid ?? 0);
  if (entry === null) throw new Error("the child is gone");
  await killEntry({ ...entry, startTicks: String(Number(entry.startTicks) - 1) });
  child.stdin?.write("still there\n");
  expect(await firstLine(child)).toBe("still there\n");
  await killEntry(entry);
  expect(await within("the child's end", once(child, "exit"))).toEqual([null, "SIGKILL"]);
});

test("a slot is emptied to the last process, and its neighbour is spared", async () => {
  const [mine, other] = [ownMark(), ownMark()];
  const child = start(mine, standIn("forks-and-escapes.ts"));
  const neighbour = start(other, standIn("forever.ts"));
  await Promise.all([firstLine(child), firstLine(neighbour)]);
  expect(await reapSlot(mine, realClock, 5000)).toEqual([]);
  expect(await pids(mine)).toEqual([]);
  expect(await pids(other)).toEqual([neighbour.pid]);
});

test.runIf(isRoot)("a slot's user is emptied, and another user is spared", async () => {
  const [mine, other] = [ownUser(), ownUser()];
  const child = start(mine, standIn("ignores-sigterm.ts"));
  const neighbour = start(other, standIn("forever.ts"));
  await Promise.all([firstLine(child), firstLine(neighbour)]);
  expect(await reapSlot(mine, realClock, 5000)).toEqual([]);
  expect(await pids(other)).toEqual([neighbour.pid]);
});

test("processes that fork between the look and the kill are ended too", async () => {
  const mark = ownMark();
  start(mark, standIn("forks-on.sh", "6"));
  await until("the tree grows", async () => (await pids(mark)).length >= 5);
  expect(await reapSlot(mark, realClock, 10_000)).toEqual([]);
  expect(await pids(mark)).toEqual([]);
});

test("a slot with nobody in it is empty at once", async () => {
  expect(await reapSlot(ownMark(), realClock, 0)).toEqual([]);
});

test("the memory of a slot is that of all its processes, and none without one", async () => {
  const mark = ownMark();
  expect(await residentBytes(mark)).toBe(0);
  const hold =
    "const b = Buffer.alloc(48e6, 1); process.stdout.write('held'); setInterval(() => b.length, 1e6)";
  const [first, second] = [0, 1].map(() => start(mark, [process.execPath, "-e", hold]));
  await Promise.all(
    [first, second].map((child) => once(child?.stdout as NonNullable<ChildProcess["stdout"]>, "data")),
  );
  const both = await residentBytes(mark);
  expect(both).toBeGreaterThan(2 * 48e6);
  expect(both).toBeLessThan(1e9);
  second?.kill("SIGKILL");
  await until("its end", async () => (await residentBytes(mark)) < both - 48e6);
});
