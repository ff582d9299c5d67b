// The recall tour as a user runs it, with process sandboxes: it holds, it leaves nothing, it says what it leaves out,
// it fails when the model forgets, and Ctrl-C ends it cleanly at any point.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { TourResult } from "../../controller/cli/tour.ts";
import { type CliEnd, startCli } from "../support/cli.ts";
import { processesOf } from "../support/left-behind.ts";
import { startModelServer } from "../support/model/server.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";

const TOUR_MS = 90_000;
const KEY = "sk-tour-conformance";

function startTour(...words: string[]) {
  const store = temporaryDirectory();
  // Where the tour makes its own folder: it must be empty again.
  const temporary = join(store, "t");
  mkdirSync(temporary);
  const tour = startCli(["demo", "--sandbox", "process", "--json", ...words], {
    store,
    env: { TMPDIR: temporary },
  });
  return {
    tour,
    store,
    end: () => within("the tour's end", tour.end, TOUR_MS),
    async expectNothingLeft() {
      expect(readdirSync(temporary)).toEqual([]);
      await until("no process of the tour", () => processesOf(store).length === 0).catch(() => {
        expect(processesOf(store)).toEqual([]);
      });
    },
  };
}

function resultOf({ stdout }: CliEnd): TourResult & { isGood: boolean } {
  const lines = stdout.trimEnd().split("\n");
  for (const line of lines) JSON.parse(line);
  return JSON.parse(lines.at(-1) ?? "") as TourResult & { isGood: boolean };
}

test("the tour holds in a plain process, leaves nothing, and says what that leaves out", async () => {
  const made = startTour();
  const end = await made.end();
  expect(end.code, end.stderr).toBe(0);
  const { rows, proofs, leftOut, isGood, kind } = resultOf(end);
  expect({ isGood, kind }).toEqual({ isGood: true, kind: "process" });
  expect(rows.map(({ settlement: { context, outcome, settled } }) => [context, outcome, settled])).toEqual([
    ["NEW", "completed", true],
    ["LIVE", "completed", true],
    ["RESTORED", "completed", true],
    ["LIVE", "completed", true],
    ["LOST", "refused", false],
  ]);
  expect(proofs).toHaveLength(8);
  expect(proofs.filter(({ holds }) => !holds)).toEqual([]);
  expect(leftOut.join("\n")).toMatch(/isolation[\s\S]*attestation[\s\S]*writable layer/);
  // Progress is JSON too, and the sandbox says what it is.
  const progress = end.stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { progress: string });
  expect(progress.map(({ progress: text }) => text).join("\n")).toContain("isolates nothing");
  await made.expectNothingLeft();
});

test("a model that forgets makes the tour fail, with a provider of the user's and its key, and says what did not hold", async () => {
  const model = await startModelServer({ expectedKey: KEY });
  onTestFinished(() => model.close());
  model.setDefault(["I can't remember any word."]);
  const key = join(temporaryDirectory(), "key");
  writeFileSync(key, KEY, { mode: 0o600 });
  const made = startTour("--base-url", model.url, "--model", "m1", "--key-file", key);
  const end = await made.end();
  expect(end.code, end.stderr).toBe(1);
  const { rows, proofs, leftOut, isGood } = resultOf(end);
  expect(isGood).toBe(false);
  // Every turn went well, the killed controller's with its key included: what fails is the recall alone.
  expect(rows.map(({ settlement }) => settlement.outcome)).toEqual([
    "completed",
    "completed",
    "completed",
    "completed",
    "refused",
  ]);
  expect(proofs.filter(({ holds }) => !holds).map(({ claim }) => claim)).toEqual([
    "the follow-up was answered from the conversation",
    "the code word was known after the restart",
  ]);
  expect(leftOut.at(-1)).toContain("what the model received");
  expect(end.stdout + end.stderr).not.toContain(KEY);
  await made.expectNothingLeft();
});

test.for([
  ["the first start", "1. a first message"],
  ["a turn", "2. a follow-up"],
  ["a stop", "stopping the sandbox"],
  ["the other controller's turn", "4. the controller is killed"],
  ["the taking over", "another one takes over"],
] as Array<[string, string]>)(
  "Ctrl-C in %s removes everything and gives exit code 130",
  async ([, point]) => {
    const made = startTour();
    await made.tour.shows(point);
    made.tour.child.kill("SIGINT");
    const end = await made.end();
    expect(end.code, end.stderr).toBe(130);
    expect(end.stderr).toContain("stopping the tour");
    await made.expectNothingLeft();
  },
);

test("a second Ctrl-C ends at once and says what may be left", async () => {
  const made = startTour();
  onTestFinished(() => endProcesses(made.store));
  await made.tour.shows("2. a follow-up");
  // A bridge that does not end when it is told to: removing it takes seconds.
  const bridges = processesOf(made.store).filter((line) => line.includes("bridge.cjs"));
  expect(bridges).toHaveLength(1);
  process.kill(Number(bridges[0]?.split(" ")[0]), "SIGSTOP");
  made.tour.child.kill("SIGINT");
  await made.tour.shows("stopping the tour");
  // Later than what counts as the same press.
  await new Promise((resolve) => setTimeout(resolve, 350));
  const pressedAt = performance.now();
  made.tour.child.kill("SIGINT");
  const end = await made.end();
  expect(end.code).toBe(130);
  expect(end.stderr).toContain("may be left");
  expect(performance.now() - pressedAt).toBeLessThan(2000);
});

async function endProcesses(folder: string): Promise<void> {
  await until("the end of what was left", () => {
    const left = processesOf(folder);
    for (const line of left) process.kill(Number(line.split(" ")[0]), "SIGKILL");
    return left.length === 0;
  });
}
