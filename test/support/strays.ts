// Global setup: after the last test, fails the run when something of it is left, and ends what it finds.
// A process is known by HOLDFAST_TEST_RUN in its environment (the workers carry it, so do children that inherit it);
// a container, volume or network by the label dev.holdfast.test=RUN, asked of the engine if one answers.
import { setTimeout as sleep } from "node:timers/promises";
import type { TestProject } from "vitest/node";
import { describe, listLeftovers } from "../../scripts/leftovers.ts";
import { killMarked, markedProcesses } from "../../scripts/marked-processes.ts";

const patienceMs = 3_000; // a child that was told to end may take a moment to
const pollMs = 100;

let isWatched = false;

export function setup(project: TestProject): (() => Promise<void>) | undefined {
  const run = project.config.env.HOLDFAST_TEST_RUN;
  if (!run) throw new Error("vitest.config.ts sets no HOLDFAST_TEST_RUN: strays could not be found");
  if (isWatched) return undefined; // every project calls this; one look, after all of them, is enough
  isWatched = true;
  return () => failOnStrays(run);
}

async function failOnStrays(run: string): Promise<void> {
  const until = performance.now() + patienceMs;
  let processes = markedProcesses(run);
  let objects = await engineObjects(run);
  while (processes.length + objects.length > 0 && performance.now() < until) {
    await sleep(pollMs);
    processes = markedProcesses(run);
    objects = await engineObjects(run);
  }
  const found = [...processes.map(({ pid, command }) => `process ${pid}: ${command}`), ...objects];
  if (found.length === 0) return;
  killMarked(processes);
  throw new Error(`tests left behind:\n  ${found.join("\n  ")}`);
}

async function engineObjects(run: string): Promise<string[]> {
  const left = await listLeftovers(run);
  return (left ?? []).filter(({ kind }) => kind !== "image").map(describe);
}
