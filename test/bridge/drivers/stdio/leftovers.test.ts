import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { listSlot, type SlotMark } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import { endLeftovers, ticksNow } from "../../../../bridge/drivers/stdio/leftovers.ts";
import { until } from "../../../support/until.ts";

const VARIABLE = "HOLDFAST_TEST_LEFTOVERS";

/** Starts `sleep` in a session of its own, as what a tool has let go of. */
function sleeper(value: string): number {
  const child = spawn("sleep", ["300"], {
    detached: true,
    stdio: "ignore",
    env: { PATH: process.env.PATH, [VARIABLE]: value },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child.pid ?? 0;
}

test("what began in the turn is ended, what was there before it stays, and so does the CLI itself", async () => {
  const value = `${process.pid} ${Date.now()}`;
  const mark: SlotMark = { kind: "environment", variable: VARIABLE, value };
  const before = sleeper(value);
  // A start is known to ten milliseconds.
  const first = await ticksNow();
  await until("the next tick", async () => (await ticksNow()) > first + 1);
  const sinceTicks = await ticksNow();
  const cli = sleeper(value);
  const left = sleeper(value);
  const there = async () => (await listSlot(mark)).map(({ pid }) => pid).sort();
  await until("all three", async () => (await there()).length === 3);
  expect(await endLeftovers({ mark, clock: realClock, limitMs: 5000, sinceTicks, except: cli })).toEqual([]);
  expect(await there()).toEqual([before, cli].sort());
  expect(await there()).not.toContain(left);
});

test("with nothing to end it is done at once", async () => {
  const mark: SlotMark = { kind: "environment", variable: VARIABLE, value: "nobody" };
  expect(await endLeftovers({ mark, clock: realClock, limitMs: 0, sinceTicks: 0, except: 1 })).toEqual([]);
});
