import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { listSlot, readEntry, type SlotMark } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import { endLeftovers, ticksNow } from "../../../../bridge/drivers/codex/leftovers.ts";
import { standIn } from "../../../support/stand-in.ts";
import { until } from "../../../support/until.ts";

const VARIABLE = "HOLDFAST_TEST_LEFTOVERS";

function place(name: string) {
  const mark: SlotMark = { kind: "environment", variable: VARIABLE, value: `${process.pid} ${name}` };
  const start = async ([file = "", ...args]: string[]): Promise<ChildProcess> => {
    const child = spawn(file, args, {
      env: { PATH: process.env.PATH, [VARIABLE]: `${process.pid} ${name}` },
      stdio: "ignore",
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child, "spawn");
    return child;
  };
  const end = (sinceTicks: number, except: number) =>
    endLeftovers({ mark, clock: realClock, limitMs: 2000, sinceTicks, except });
  return { mark, start, end };
}

const isThere = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;
/** So that the next process has a later tick. */
const nextTick = () => new Promise((resolve) => setTimeout(resolve, 25));

test("the moment is the kernel's: a process that starts now begins at or behind it", async () => {
  const before = await ticksNow();
  const { start } = place("ticks");
  const child = await start(["sleep", "60"]);
  const entry = await readEntry(child.pid ?? 0);
  const started = Number(entry?.startTicks);
  expect(started).toBeGreaterThanOrEqual(before);
  expect(started - before).toBeLessThan(500);
});

test("what began in the turn is ended, what was there before and what is excepted stays", async () => {
  const { start, end } = place("turn");
  const earlier = await start(["sleep", "60"]);
  await nextTick();
  const since = await ticksNow();
  await nextTick();
  const codex = await start(["sleep", "61"]);
  const tool = await start(["sleep", "62"]);
  expect(await end(since, codex.pid ?? 0)).toEqual([]);
  await until("the tool's end", () => !isThere(tool), 2000);
  expect([isThere(earlier), isThere(codex)]).toEqual([true, true]);
});

test("processes that fork and escape are ended with all that they started", async () => {
  const { mark, start, end } = place("forks");
  const since = await ticksNow();
  await start(standIn("forks-and-escapes.ts"));
  await until("the forks", async () => (await listSlot(mark)).length > 2, 5000);
  expect(await end(since, 0)).toEqual([]);
  expect(await listSlot(mark)).toEqual([]);
});
