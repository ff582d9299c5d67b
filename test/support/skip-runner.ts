// Runner for container projects under HOLDFAST_SKIP_CONTAINERS=1: collects their tests and runs none, no hook either,
// so that each is counted as skipped. Not used in any other case.
import type { RunnerTask, RunnerTestFile } from "vitest";
import { TestRunner } from "vitest";

// biome-ignore lint/style/noDefaultExport: vitest takes a runner's default export
export default class SkipRunner extends TestRunner {
  onCollected(files: RunnerTestFile[]): void {
    for (const file of files) skip(file);
  }
}

function skip(task: RunnerTask): void {
  task.mode = "skip";
  if ("tasks" in task) for (const child of task.tasks) skip(child);
}
