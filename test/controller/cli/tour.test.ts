// How a tour ends when it can't be played. Played tours: test/conformance/tour-process.test.ts, test/container/tour.test.ts.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { readStore } from "../../../controller/cli/read-store.ts";
import { runTour } from "../../../controller/cli/tour.ts";
import { namedModel } from "../../../controller/cli/tour-model.ts";
import { keptOutput } from "../../support/cli.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

/** A build whose bridge ends at once. */
function surroundings() {
  const dist = temporaryDirectory();
  const bridge = join(dist, "bridge.cjs");
  writeFileSync(bridge, "");
  const clis = [{ cli: "opencode", version: "1", command: ["/nonexistent/opencode"], isChosen: true }];
  writeFileSync(
    join(dist, "bundle.json"),
    JSON.stringify({ node: process.execPath, bridge, piExtension: bridge, clis }),
  );
  const directory = temporaryDirectory();
  const environment = readEnvironment(
    { store: directory },
    { ...process.env, HOLDFAST_DIST: dist, DOCKER_HOST: "unix:///nonexistent/e.sock" },
  );
  return { directory, environment };
}

function tour(signal: AbortSignal) {
  const { directory, environment } = surroundings();
  const output = keptOutput();
  const model = namedModel({ relay: { routes: [] }, route: undefined, model: "m" });
  const run = runTour({ environment, output, model, kind: "process", directory, signal });
  const left = () =>
    readStore(environment, (store) => store.sandboxes().filter(({ wanted }) => wanted !== "removed"));
  return { run, output, left };
}

test("a tour that is stopped before its first turn ends with STOPPED, and its sandbox is removed", async () => {
  const { run, left } = tour(AbortSignal.abort());
  await expect(run).rejects.toMatchObject({ code: "STOPPED" });
  expect(left()).toEqual([]);
});
