// Which tests exist, in which project, and how they run. Unit tests in parallel; whatever starts a real CLI or a
// container one file at a time (on two cores three at once take three times as long each).
import { defineConfig } from "vitest/config";
import { newRun } from "./scripts/leftovers.ts";
import { Tally } from "./test/support/tally.ts";

const optsOut = process.env.HOLDFAST_SKIP_CONTAINERS === "1";
const isFull = process.env.HOLDFAST_TEST_FULL === "1";

const serial = { fileParallelism: false, maxWorkers: 1 };
const container = {
  ...serial,
  ...(optsOut && { runner: "./test/support/skip-runner.ts" }),
};

const full = {
  extends: true as const,
  test: {
    ...container,
    name: "full",
    include: ["test/full/**/*.test.ts"],
    testTimeout: 900_000,
    hookTimeout: 120_000,
    sequence: { groupOrder: 3 },
  },
};

// biome-ignore lint/style/noDefaultExport: vitest takes the default export
export default defineConfig({
  test: {
    pool: "forks",
    // Marks every process that tests start; not set on the main process, whose own helpers would carry it.
    env: { HOLDFAST_TEST_RUN: process.env.HOLDFAST_TEST_RUN_ID || newRun() },
    reporters: ["default", new Tally()],
    globalSetup: ["./test/support/strays.ts"],
    setupFiles: ["./test/support/leaks.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: [
            "test/{protocol,bridge,controller,model,history,sandbox-image,scripts,house}/**/*.test.ts",
          ],
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          ...serial,
          name: "conformance",
          include: ["test/conformance/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          ...container,
          name: "container",
          include: ["test/container/**/*.test.ts", "test/fault/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 2 },
        },
      },
      ...(isFull ? [full] : []),
    ],
  },
});
