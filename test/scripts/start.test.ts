// `npm start`'s own words; that it makes what the tour needs is shown by running it (README, .ci/run).
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { cli, DEAD_ENGINE, startCli } from "../support/cli.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { within } from "../support/until.ts";

const program = fileURLToPath(new URL("../../scripts/start.ts", import.meta.url));
const env = { DOCKER_HOST: DEAD_ENGINE, npm_lifecycle_event: "start" };

test("help is the tour's, and makes nothing", async () => {
  const { code, stdout, stderr } = await cli(["--help"], { store: temporaryDirectory(), env, program });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain("usage: npm run holdfast -- demo [--sandbox docker|process]");
});

test.for([[["--sandbox", "vm"]], [["--sandbox=vm"]]])(
  "%s is refused before anything is made, with the tour's exit code",
  async ([words]) => {
    const { code, stdout, stderr } = await cli(words ?? [], { store: temporaryDirectory(), env, program });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("[USAGE]");
  },
);

test("a signal is passed on to the tour, and its exit code is ours", async () => {
  const words = ["--sandbox", "process", "--json"];
  const start = startCli(words, {
    store: temporaryDirectory(),
    env: { ...env, TMPDIR: temporaryDirectory() },
    program,
  });
  await start.shows("1. a first message");
  start.child.kill("SIGTERM");
  expect((await within("the end of the start", start.end, 30_000)).code).toBe(130);
}, 60_000);
