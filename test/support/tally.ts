// Counts a vitest run for the one plain line at its end. Under scripts/test.ts the counts go to a file, because that
// script still has steps to do and prints the line itself; a bare `vitest run` prints it here.
import { writeFileSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";

const containerProjects = ["container", "full"];

export class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0, containerTestsRun: 0 };
    for (const module of modules) {
      const isContainer = containerProjects.includes(module.project.name);
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        counts[state === "pending" ? "skipped" : state] += 1;
        if (isContainer && (state === "passed" || state === "failed")) counts.containerTestsRun += 1;
      }
      if (module.errors().length > 0) counts.failed += 1;
    }
    counts.failed += errors.length;
    // At exit, because a global teardown (strays) may still fail the run after its last test.
    process.once("exit", (code) => {
      if (code !== 0 && counts.failed === 0) counts.failed = 1;
      const file = process.env.HOLDFAST_TEST_TALLY;
      if (file) writeFileSync(file, JSON.stringify(counts));
      else
        process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
    });
  }
}
