import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { imageBuild, runBuild } from "../../../controller/cli/image.ts";
import { keptOutput } from "../../support/cli.ts";
import { startEngineStandIn } from "../../support/engine.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

/** A package whose build writes down its words and ends with the code. */
function packageWith(code: number, engine = "/nonexistent/e.sock") {
  const root = temporaryDirectory();
  mkdirSync(join(root, "sandbox-image"));
  const words = join(root, "words.json");
  writeFileSync(
    join(root, "sandbox-image", "build.ts"),
    `require("node:fs").writeFileSync(${JSON.stringify(words)}, JSON.stringify(process.argv.slice(2))); process.exitCode = ${code};`,
  );
  const environment = { ...readEnvironment({}, { DOCKER_HOST: `unix://${engine}` }), root };
  return { environment, words: () => JSON.parse(readFileSync(words, "utf8")) as string[] };
}

function build(values: Record<string, string | boolean>, made: ReturnType<typeof packageWith>) {
  return imageBuild.run({ words: [], values, environment: made.environment, output: keptOutput() });
}

test("the build's own program runs with the options, and a build that works is exit code 0", async () => {
  const engine = await startEngineStandIn({ images: {} });
  const made = packageWith(0, engine);
  expect(await build({ base: "debian:12", claude: "2.1.220", tag: "a/b:c", json: true }, made)).toBe(0);
  expect(made.words()).toEqual(["--base", "debian:12", "--claude", "2.1.220", "--tag", "a/b:c", "--json"]);
});

test("without an engine it says so before it starts; the bundle alone needs none", async () => {
  const made = packageWith(0);
  await expect(build({}, made)).rejects.toMatchObject({ code: "ENGINE_MISSING" });
  expect(await build({ "bundle-only": true }, made)).toBe(0);
  expect(made.words()).toEqual(["--bundle-only"]);
});

test("a build that fails, and a package without one, are errors with a code", async () => {
  const made = packageWith(3);
  expect(await runBuild(made.environment, [])).toBe(3);
  await expect(build({ "bundle-only": true }, made)).rejects.toMatchObject({
    code: "ENGINE_ERROR",
    message: expect.stringContaining("exit code 3") as string,
  });
  const environment = { ...made.environment, root: temporaryDirectory() };
  expect(() => runBuild(environment, [])).toThrow("not part of this package");
});
