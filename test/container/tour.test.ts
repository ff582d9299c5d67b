// The recall tour as a user runs it, in a container: it holds, its container carries the labels that were asked for,
// and nothing of it is left, also when it is interrupted.
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TourResult } from "../../controller/cli/tour.ts";
import { listLeftovers } from "../../scripts/leftovers.ts";
import { startCli } from "../support/cli.ts";
import { processesOf } from "../support/left-behind.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";

const TOUR_MS = 100_000;
const RUN = process.env.HOLDFAST_TEST_RUN ?? "none";

async function containers(): Promise<string[]> {
  return ((await listLeftovers(RUN)) ?? []).filter(({ kind }) => kind === "container").map(({ id }) => id);
}

function startTour(...words: string[]) {
  const store = temporaryDirectory();
  // Where the tour makes its own folder: it must be empty again.
  const temporary = join(store, "t");
  mkdirSync(temporary);
  const tour = startCli(["demo", "--sandbox", "docker", ...words], { store, env: { TMPDIR: temporary } });
  return {
    tour,
    end: () => within("the tour's end", tour.end, TOUR_MS),
    async expectNothingLeft() {
      expect(readdirSync(temporary)).toEqual([]);
      expect(await containers()).toEqual([]);
      expect(processesOf(store)).toEqual([]);
    },
  };
}

test("the tour holds in a container that carries the labels asked for, and leaves nothing", async () => {
  const made = startTour("--json");
  await made.tour.shows("2. a follow-up");
  expect(await containers()).toHaveLength(1);
  const end = await made.end();
  expect(end.code, end.stderr).toBe(0);
  const lines = end.stdout.trimEnd().split("\n");
  for (const line of lines) JSON.parse(line);
  const { kind, rows, proofs, leftOut, isGood } = JSON.parse(lines.at(-1) ?? "") as TourResult & {
    isGood: boolean;
  };
  expect({ kind, isGood, leftOut }).toEqual({ kind: "docker", isGood: true, leftOut: [] });
  expect(rows.map(({ settlement: { context, outcome, settled } }) => [context, outcome, settled])).toEqual([
    ["NEW", "completed", true],
    ["LIVE", "completed", true],
    ["RESTORED", "completed", true],
    ["LIVE", "completed", true],
    ["LOST", "refused", false],
  ]);
  expect(proofs).toHaveLength(8);
  expect(proofs.filter(({ holds }) => !holds)).toEqual([]);
  await made.expectNothingLeft();
});

test("for people it is a table with what was shown, without escapes where it is no terminal", async () => {
  const made = startTour();
  const { code, stdout, stderr } = await made.end();
  expect(code, stderr).toBe(0);
  for (const context of ["NEW", "LIVE", "RESTORED", "LOST"])
    expect(stdout).toMatch(new RegExp(` ${context} `));
  expect(stdout).toContain("all of it held. how to go on:");
  expect(stdout + stderr).not.toContain("\u001b");
  await made.expectNothingLeft();
});

test.for([
  ["the first start", "1. a first message", 0],
  ["the first start, once the container is there", "1. a first message", 1],
  ["a turn", "2. a follow-up", 1],
  ["the other controller's turn", "4. the controller is killed", 1],
] as Array<[string, string, number]>)(
  "Ctrl-C in %s removes the container and gives exit code 130",
  async ([, point, count]) => {
    const made = startTour();
    await made.tour.shows(point);
    await until("the container", async () => (await containers()).length >= count);
    made.tour.child.kill("SIGINT");
    const end = await made.end();
    expect(end.code, end.stderr).toBe(130);
    await made.expectNothingLeft();
  },
);
