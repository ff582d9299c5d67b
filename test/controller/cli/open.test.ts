import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Environment, readEnvironment } from "../../../controller/cli/environment.ts";
import {
  chooseKind,
  commandSetup,
  memberOptions,
  NO_MODEL,
  openCommandHost,
} from "../../../controller/cli/open.ts";
import { MemberOptions } from "../../../controller/store/records.ts";
import { CliName } from "../../../protocol/locator.ts";
import { protocolProblem } from "../../../protocol/model-protocol.ts";
import { keptOutput } from "../../support/cli.ts";
import { startEngineStandIn } from "../../support/engine.ts";
import { DIGEST_A } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const BRIDGE = "/opt/holdfast/bridge.cjs";

function surroundings(options: { engine?: string; isBuilt?: boolean; hasBundle?: boolean }): Environment {
  const dist = temporaryDirectory();
  if (options.isBuilt === true) {
    const manifest = { files: [{ path: BRIDGE, sha256: DIGEST_A }], clis: [] };
    const record = { imageId: "sha256:1", manifestSha256: DIGEST_A, manifest };
    writeFileSync(join(dist, "image-manifest.json"), JSON.stringify(record));
  }
  if (options.hasBundle === true) {
    const bridge = join(dist, "bridge.cjs");
    writeFileSync(bridge, "");
    writeFileSync(
      join(dist, "bundle.json"),
      JSON.stringify({ node: process.execPath, bridge, piExtension: bridge, clis: [] }),
    );
  }
  return readEnvironment(
    { store: temporaryDirectory() },
    { HOLDFAST_DIST: dist, DOCKER_HOST: `unix://${options.engine ?? "/nonexistent/e.sock"}` },
  );
}

function choose(environment: Environment, asked?: string) {
  const output = keptOutput();
  const setup = commandSetup(environment);
  onTestFinished(() => setup.close());
  return { output, kind: chooseKind(asked, setup, output) };
}

test("an engine that answers and an image make a container; without an engine it is a process, which says so", async () => {
  const engine = await startEngineStandIn({ images: { "sha256:1": {} } });
  await expect(choose(surroundings({ engine, isBuilt: true, hasBundle: true })).kind).resolves.toBe("docker");
  const { kind, output } = choose(surroundings({ hasBundle: true }));
  await expect(kind).resolves.toBe("process");
  expect(output.err()).toContain("isolates nothing");
  await expect(choose(surroundings({ engine, hasBundle: true }), "process").kind).resolves.toBe("process");
});

test("what is missing is said with what to run", async () => {
  const engine = await startEngineStandIn({ images: {} });
  const refusals: Array<[Parameters<typeof surroundings>[0], string | undefined, string, RegExp]> = [
    [{}, "docker", "ENGINE_MISSING", /engine/],
    [{ engine }, undefined, "IMAGE_MISSING", /no sandbox image was built here/],
    [{ engine, isBuilt: true }, "docker", "IMAGE_MISSING", /not in this engine/],
    [{}, "process", "IMAGE_MISSING", /npm run image -- --bundle-only/],
    [{}, undefined, "IMAGE_MISSING", /npm start/],
    [{}, "vm", "USAGE", /docker or process, not "vm"/],
  ];
  for (const [around, asked, code, message] of refusals) {
    await expect(choose(surroundings(around), asked).kind).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
  }
});

test("without an engine a host opens in silence, unless the store has containers", async () => {
  const environment = surroundings({ hasBundle: true });
  const output = keptOutput();
  const first = await openCommandHost({ environment, output, relay: NO_MODEL });
  expect(() => first.host.createSandbox({ kind: "docker" })).toThrow("offers no docker");
  first.host.store.createSandbox({ id: "sb-1", kind: "docker", directory: "/d" });
  await first.close();
  expect(output.err()).toBe("");
  const second = await openCommandHost({ environment, output, relay: NO_MODEL });
  await second.close();
  expect(output.err()).toContain("no container engine answers");
});

test("the members that the command line makes fit the store", () => {
  for (const cli of CliName.options) {
    const options = memberOptions(cli, "m");
    expect(MemberOptions.safeParse(options).success, cli).toBe(true);
    expect(protocolProblem(cli, options.model.protocol), cli).toBeNull();
  }
});
