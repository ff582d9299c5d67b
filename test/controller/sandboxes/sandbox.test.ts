// The contract of a sandbox driver, over each driver: containers on a stand-in of the engine, plain processes for real.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { DOCKER_DEFAULTS, dockerSandboxes } from "../../../controller/sandboxes/docker.ts";
import { openEngine } from "../../../controller/sandboxes/engine-api.ts";
import { processSandboxes } from "../../../controller/sandboxes/process.ts";
import type { SandboxDriver, SandboxSpec } from "../../../controller/sandboxes/sandbox.ts";
import { BridgeConfig } from "../../../protocol/bridge-config.ts";
import { FakeEngine } from "../../support/fake-engine.ts";
import { FakeSandboxes } from "../../support/fake-sandbox.ts";
import { DIGEST_A, DIGEST_B } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const CLI = { cli: "opencode", version: "1.14.50", command: ["/opt/opencode"] };

async function onEngine(root: string): Promise<SandboxDriver> {
  const engine = openEngine((await FakeEngine.start()).socketPath);
  onTestFinished(() => engine.close());
  const imageRecordPath = join(root, "image-manifest.json");
  const files = [{ path: "/opt/holdfast/bridge.cjs", sha256: DIGEST_A }];
  const record = { imageId: "sha256:1234", manifestSha256: DIGEST_B, manifest: { files, clis: [CLI] } };
  writeFileSync(imageRecordPath, JSON.stringify(record));
  return dockerSandboxes({
    engine,
    imageRecordPath,
    labels: {},
    limits: {},
    commands: {},
    ...DOCKER_DEFAULTS,
  });
}

async function asProcesses(root: string): Promise<SandboxDriver> {
  const bridgePath = join(root, "bridge.cjs");
  writeFileSync(bridgePath, "setInterval(() => undefined, 60_000);");
  const environment = { HOLDFAST_TEST_RUN: process.env.HOLDFAST_TEST_RUN };
  const clis = [{ cli: CLI.cli, version: CLI.version, command: CLI.command }];
  return processSandboxes({ bridgePath, node: process.execPath, clis, limits: {}, environment });
}

async function asFake(): Promise<SandboxDriver> {
  const fake = new FakeSandboxes();
  fake.onStart = async () => undefined;
  return fake;
}

const DRIVERS = { onEngine, asProcesses, asFake };

for (const [name, make] of Object.entries(DRIVERS)) {
  const rig = async (): Promise<{ driver: SandboxDriver; spec: SandboxSpec }> => {
    const root = temporaryDirectory();
    const directory = join(root, "box");
    mkdirSync(directory);
    writeFileSync(join(directory, "bridge.json"), "{}");
    const spec = { storeId: "store-1", sandboxId: "box", generation: 1, directory };
    const driver = await make(root);
    onTestFinished(() => driver.remove(spec, "any"));
    return { driver, spec };
  };

  test(`a sandbox is missing, stopped, running, stopped, missing (${name})`, async () => {
    const { driver, spec } = await rig();
    expect(await driver.state(spec, "none")).toBe("missing");
    const { containerId } = await driver.create(spec);
    expect(await driver.state(spec, containerId)).toBe("stopped");
    await driver.start(spec, containerId);
    expect(await driver.state(spec, containerId)).toBe("running");
    await driver.stop(spec, containerId, 5000);
    expect(await driver.state(spec, containerId)).toBe("stopped");
    await driver.start(spec, containerId);
    await driver.remove(spec, containerId);
    expect(await driver.state(spec, containerId)).toBe("missing");
  });

  test(`stopping and removing may be repeated (${name})`, async () => {
    const { driver, spec } = await rig();
    const { containerId } = await driver.create(spec);
    await driver.stop(spec, containerId, 5000);
    await driver.start(spec, containerId);
    for (let times = 0; times < 2; times += 1) await driver.stop(spec, containerId, 5000);
    for (let times = 0; times < 2; times += 1) await driver.remove(spec, containerId);
    expect(await driver.state(spec, containerId)).toBe("missing");
  });

  test(`what is pinned names what this kind has, and the bridge's configuration fits (${name})`, async () => {
    const { driver, spec } = await rig();
    const pinned = await driver.pinned();
    expect(pinned.helperSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(pinned.imageId === null).toBe(!driver.hasImage);
    expect(pinned.manifestSha256 === null).toBe(!driver.hasImage);
    expect(pinned.clis).toContainEqual(expect.objectContaining({ cli: "opencode", version: "1.14.50" }));
    const { containerId } = await driver.create(spec);
    const config = await driver.bridgeConfig(spec, containerId);
    expect(BridgeConfig.parse(config)).toEqual(config);
    expect(config.sandboxId).toBe("box");
  });

  test(`a list names each place once, by its sandbox, or says that this kind keeps none (${name})`, async () => {
    const { driver, spec } = await rig();
    const { containerId } = await driver.create(spec);
    const listed = (await driver.list(spec.storeId)).map((place) => [place.sandboxId, place.containerId]);
    expect([[], [["box", containerId]]]).toContainEqual(listed);
    expect(await driver.logTail(spec, containerId)).toEqual(expect.any(String));
  });
}
