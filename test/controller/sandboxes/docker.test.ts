import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  DOCKER_DEFAULTS,
  type DockerOptions,
  dockerSandboxes,
} from "../../../controller/sandboxes/docker.ts";
import { openEngine } from "../../../controller/sandboxes/engine-api.ts";
import { BridgeConfig } from "../../../protocol/bridge-config.ts";
import { HELPER_PIN } from "../../../protocol/pin.ts";
import { type EngineReply, FakeEngine, logPiece } from "../../support/fake-engine.ts";
import { tarOf } from "../../support/tar.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const BRIDGE = "/opt/holdfast/bridge.cjs";
const MANIFEST = "/opt/holdfast/manifest.json";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const RECORD = {
  imageId: "sha256:1234",
  manifestSha256: sha256("the manifest"),
  manifest: {
    files: [{ path: BRIDGE, sha256: sha256("the bridge") }],
    clis: [{ cli: "opencode", version: "1.14.50", command: ["/opt/clis/opencode"] }],
  },
};
const SPEC = { storeId: "store-1", sandboxId: "box", generation: 2, directory: "/var/s/box" };

async function rig(record: unknown = RECORD, more: Partial<DockerOptions> = {}) {
  const engine = await FakeEngine.start();
  engine.putFile(BRIDGE, "the bridge");
  engine.putFile(MANIFEST, "the manifest");
  const api = openEngine(engine.socketPath);
  onTestFinished(() => api.close());
  const imageRecordPath = join(temporaryDirectory(), "image-manifest.json");
  if (record !== null)
    writeFileSync(imageRecordPath, typeof record === "string" ? record : JSON.stringify(record));
  const driver = dockerSandboxes({
    engine: api,
    imageRecordPath,
    labels: { "my.label": "1" },
    limits: { turnMs: 1234 },
    commands: {},
    ...DOCKER_DEFAULTS,
    ...more,
  });
  const answering = (suffix: string, reply: EngineReply) => {
    engine.override = ({ path }) => (path.endsWith(suffix) ? reply : undefined);
  };
  return { engine, driver, answering };
}

test("the pinned build is what the image's record says", async () => {
  const { driver } = await rig();
  expect(await driver.pinned()).toMatchObject({
    imageId: "sha256:1234",
    helperSha256: sha256("the bridge"),
    manifestSha256: sha256("the manifest"),
    clis: [{ cli: "opencode", version: "1.14.50" }],
  });
});

test("a record that is missing, broken, or names no bridge means that there is no image", async () => {
  const noBridge = { ...RECORD, manifest: { ...RECORD.manifest, files: [] } };
  for (const record of [null, "{", "[]", { imageId: 7 }, noBridge]) {
    const { driver } = await rig(record);
    await expect(driver.pinned()).rejects.toMatchObject({ code: "IMAGE_MISSING" });
  }
});

test("a container is made hardened, without network, with the sandbox's directory read-only and our marks", async () => {
  const { engine, driver } = await rig();
  expect(await driver.create(SPEC)).toEqual({ containerId: "c1", imageId: "sha256:1234" });
  const call = engine.calls.find(({ path }) => path === "/containers/create");
  expect(call?.query.get("name")).toBe("holdfast-box-2");
  expect(call?.body).toMatchObject({
    Image: "sha256:1234",
    Labels: {
      "my.label": "1",
      "dev.holdfast.sandbox": "box",
      "dev.holdfast.store": "store-1",
      "dev.holdfast.first-uid": "20001",
    },
    StopTimeout: 60,
    HostConfig: {
      Binds: ["/var/s/box:/run/holdfast:ro"],
      NetworkMode: "none",
      CapDrop: ["ALL"],
      CapAdd: ["SETUID", "SETGID", "CHOWN", "KILL"],
      SecurityOpt: ["no-new-privileges"],
      PidsLimit: 1024,
      Memory: 4 * 1024 ** 3,
      MemorySwap: 4 * 1024 ** 3,
      RestartPolicy: { Name: "no" },
    },
  });
  expect(JSON.stringify(call?.body)).not.toMatch(/Env|Privileged|PortBindings/);
});

test("sandboxes of one engine share no user, also when they are made at once or belong to other stores", async () => {
  const { driver } = await rig();
  const specs = ["a", "b", "c"].map((sandboxId) => ({ ...SPEC, sandboxId, storeId: `store-${sandboxId}` }));
  const made = await Promise.all(specs.map((spec) => driver.create(spec)));
  const users = await Promise.all(
    made.map(async ({ containerId }) => (await driver.bridgeConfig(SPEC, containerId)).users?.firstUid),
  );
  expect(users.toSorted()).toEqual([20_001, 20_129, 20_257]);
});

test("a container that met another controller's with the same users is removed and made anew with others", async () => {
  const { engine, driver } = await rig();
  let looks = 0;
  // Another controller looks at the same time as we do, and makes its own before ours is there.
  engine.override = ({ path }) => {
    if (path === "/containers/json") looks += 1;
    if (path === "/containers/json" && looks === 2)
      return {
        status: 200,
        body: ["c1", "other"].map((Id) => ({
          Id,
          State: "running",
          Labels: { "dev.holdfast.first-uid": "20001" },
        })),
      };
    return undefined;
  };
  const { containerId } = await driver.create(SPEC);
  expect(engine.paths().filter((path) => !path.startsWith("GET"))).toEqual([
    "POST /containers/create",
    "DELETE /containers/c1",
    "POST /containers/create",
  ]);
  expect([...engine.containers.keys()]).toEqual([containerId]);
  engine.override = ({ path }) =>
    path === "/containers/json"
      ? {
          status: 200,
          body: [{ Id: "other", State: "running", Labels: { "dev.holdfast.first-uid": "20001" } }],
        }
      : undefined;
  await expect(driver.create({ ...SPEC, sandboxId: "none" })).rejects.toMatchObject({ code: "OVERLOADED" });
  expect([...engine.containers.keys()]).toEqual([containerId]);
});

test("with a read-only root the state, the slots and the workspace are volumes of the container's own", async () => {
  const { engine, driver } = await rig(RECORD, { readOnlyRoot: true });
  const { containerId } = await driver.create(SPEC);
  expect(engine.calls.find(({ path }) => path === "/containers/create")?.body).toMatchObject({
    Volumes: { "/var/lib/holdfast": {}, "/home/slots": {}, "/workspace": {} },
    HostConfig: { ReadonlyRootfs: true, Binds: ["/var/s/box:/run/holdfast:ro"] },
  });
  const volume = { Type: "volume", Name: "0".repeat(64), Destination: "/workspace", RW: true };
  const mounted = async (mount: object) => {
    engine.mounts = [mount];
    return (await driver.measure(SPEC, containerId)).foreignMounts;
  };
  expect(await mounted(volume)).toEqual([]);
  for (const other of [{ Type: "bind" }, { Name: "shared" }, { Destination: "/opt/holdfast" }])
    expect(await mounted({ ...volume, ...other })).toHaveLength(1);
});

test("an image that the engine does not have is told apart from every other failure of a creation", async () => {
  const { engine, driver, answering } = await rig();
  engine.imageId = "sha256:other";
  await expect(driver.create(SPEC)).rejects.toMatchObject({ code: "IMAGE_MISSING" });
  for (const reply of [
    { status: 500, body: { message: "no space left" } },
    { status: 409, body: { message: "the name is in use" } },
    { status: 201, body: "not JSON" },
    { status: 201, body: {} },
    { status: 201, body: { Id: 7 } },
    { status: 201, body: { Id: "" } },
  ]) {
    answering("/create", reply);
    await expect(driver.create(SPEC)).rejects.toMatchObject({ code: "ENGINE_ERROR" });
  }
  answering("/create", "reset");
  await expect(driver.create(SPEC)).rejects.toMatchObject({ code: "ENGINE_MISSING" });
});

test("state is running, stopped or missing, and an engine that describes it oddly is an error, not a state", async () => {
  const { engine, driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  expect(await driver.state(SPEC, "none")).toBe("missing");
  expect(await driver.state(SPEC, containerId)).toBe("stopped");
  await driver.start(SPEC, containerId);
  expect(await driver.state(SPEC, containerId)).toBe("running");
  await driver.stop(SPEC, containerId, 3000);
  expect(engine.calls.find(({ path }) => path.endsWith("/stop"))?.query.get("t")).toBe("3");
  expect(await driver.state(SPEC, containerId)).toBe("stopped");
  for (const body of ["", "{}", "null", '{"State":{"Running":"yes"}}']) {
    answering("/json", { status: 200, body });
    await expect(driver.state(SPEC, containerId)).rejects.toMatchObject({ code: "ENGINE_ERROR" });
  }
  answering("/json", { status: 500, body: { message: "sorry" } });
  await expect(driver.state(SPEC, containerId)).rejects.toMatchObject({ code: "ENGINE_ERROR" });
});

test("a stop tells what the bridge ended with, and nothing of one that is gone", async () => {
  const { engine, driver } = await rig();
  const { containerId } = await driver.create(SPEC);
  await driver.start(SPEC, containerId);
  engine.exitCode = 137;
  expect(await driver.stop(SPEC, containerId, 1000)).toBe(137);
  engine.exitCode = 0;
  expect(await driver.stop(SPEC, containerId, 1000)).toBe(0);
  expect(await driver.stop(SPEC, "none", 1000)).toBeNull();
});

test("a container that does not carry the store's and the sandbox's labels is neither started, stopped nor removed", async () => {
  const { engine, driver } = await rig();
  const { containerId } = await driver.create(SPEC);
  await driver.start(SPEC, containerId);
  const container = engine.containers.get(containerId);
  if (container === undefined) throw new Error("not made");
  const own = { ...container.create.Labels };
  for (const labels of [
    {},
    { ...own, "dev.holdfast.store": "store-2" },
    { ...own, "dev.holdfast.sandbox": "other" },
  ]) {
    container.create.Labels = labels as Record<string, string>;
    for (const step of ["start", "stop", "remove"] as const)
      await expect(driver[step](SPEC, containerId, 1000)).rejects.toMatchObject({ code: "SANDBOX_FOREIGN" });
    expect(engine.containers.get(containerId)?.isRunning).toBe(true);
  }
  container.create.Labels = own;
  await driver.remove(SPEC, containerId);
  expect(engine.containers.size).toBe(0);
});

test("stopping and removing what is gone or does not run has no effect, and other refusals are errors", async () => {
  const { driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  await driver.stop(SPEC, containerId, 1);
  await driver.remove(SPEC, containerId);
  await driver.remove(SPEC, containerId);
  await driver.stop(SPEC, containerId, 1000);
  await expect(driver.start(SPEC, containerId)).rejects.toMatchObject({ code: "ENGINE_ERROR" });
  const failed = { status: 500, body: { message: "device busy" } };
  const next = await driver.create(SPEC);
  answering("/stop", failed);
  await expect(driver.stop(SPEC, next.containerId, 1000)).rejects.toThrow("device busy");
  answering(next.containerId, failed);
  await expect(driver.remove(SPEC, next.containerId)).rejects.toThrow("device busy");
});

test("a container is measured in its own file system", async () => {
  const { driver } = await rig();
  const { containerId } = await driver.create(SPEC);
  expect(await driver.measure(SPEC, containerId)).toEqual({
    imageId: "sha256:1234",
    pinLabel: HELPER_PIN,
    helper: { sha256: sha256("the bridge") },
    manifest: { sha256: sha256("the manifest") },
    foreignMounts: [],
    changedCode: [],
  });
});

test("a helper that is a link, a folder, several files or missing is a problem and no digest", async () => {
  const { engine, driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  const helper = async () => (await driver.measure(SPEC, containerId)).helper;
  engine.files.set(BRIDGE, tarOf([{ name: "bridge.cjs", type: "2", body: "", linkTo: "/tmp/mine.cjs" }]));
  expect(await helper()).toEqual({ problem: expect.stringContaining("tar type 2") });
  engine.files.set(BRIDGE, tarOf([{ name: "bridge.cjs", type: "5", body: "" }]));
  expect(await helper()).toEqual({ problem: expect.stringContaining("tar type 5") });
  engine.files.delete(BRIDGE);
  expect(await helper()).toEqual({ problem: `${BRIDGE} is missing` });
  answering("/archive", { status: 500, body: { message: "io error" } });
  expect(await helper()).toEqual({ problem: expect.stringContaining("io error") });
});

test("changes over the image's code are measured; what an agent made is not", async () => {
  const { engine, driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  engine.changes = [
    { Path: "/home/slots/m-1/data", Kind: 1 },
    { Path: "/opt/holdfast/clis/opencode", Kind: 0 },
    { Path: "/opt/holdfast/clis/opencode/bin", Kind: 0 },
    { Path: "/opt/holdfast/clis/opencode/bin/opencode", Kind: 0 },
  ];
  expect((await driver.measure(SPEC, containerId)).changedCode).toEqual([
    "/opt/holdfast/clis/opencode/bin/opencode (changed)",
  ]);
  for (const reply of [
    { status: 500, body: { message: "io error" } },
    { status: 200, body: "[{}]" },
  ]) {
    answering("/changes", reply);
    await expect(driver.measure(SPEC, containerId)).rejects.toMatchObject({ code: "ENGINE_ERROR" });
  }
});

test("an engine that goes away while measuring is an error, not a verdict over the helper", async () => {
  const { driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  answering("/archive", "reset");
  await expect(driver.measure(SPEC, containerId)).rejects.toMatchObject({ code: "ENGINE_MISSING" });
});

test("a container that is gone when it is measured is lost", async () => {
  const { driver } = await rig();
  await expect(driver.measure(SPEC, "none")).rejects.toMatchObject({ code: "CONTEXT_LOST" });
});

test("each mount beside ours, writable, or of another source is foreign", async () => {
  const { engine, driver } = await rig();
  const { containerId } = await driver.create(SPEC);
  const container = engine.containers.get(containerId);
  const own = { Destination: "/run/holdfast", Source: SPEC.directory, RW: false };
  const cases = [
    [[own], []],
    [[{ ...own, RW: true }], ["/run/holdfast"]],
    [[{ ...own, Source: "/var/s/other" }], ["/run/holdfast"]],
    [[{ ...own, Source: undefined }], ["/run/holdfast"]],
    [
      [own, { Destination: "/var/run/docker.sock", Source: "/var/run/docker.sock", RW: false }],
      ["/var/run/docker.sock"],
    ],
    [[{ Destination: BRIDGE, Source: "/tmp/mine.cjs", RW: false }], [BRIDGE]],
  ];
  for (const [Mounts, foreign] of cases) {
    engine.override = ({ path }) =>
      path === `/containers/${containerId}/json` && container !== undefined
        ? { status: 200, body: { ...engine.inspected(container), Mounts } }
        : undefined;
    expect((await driver.measure(SPEC, containerId)).foreignMounts).toEqual(foreign);
  }
});

test("a container whose own label is not the image's does not pass for it", async () => {
  const { engine, driver } = await rig();
  const { containerId } = await driver.create(SPEC);
  const container = engine.containers.get(containerId);
  if (container === undefined) throw new Error("not made");
  container.create.Labels["dev.holdfast.pin"] = "http-agent-live-bridge=3";
  const { pinLabel } = await driver.measure(SPEC, containerId);
  expect(pinLabel).toBe(`image: ${HELPER_PIN}, container: http-agent-live-bridge=3`);
  delete container.create.Labels["dev.holdfast.pin"];
  engine.imageLabels = null;
  expect((await driver.measure(SPEC, containerId)).pinLabel).toBeNull();
});

test("an image that is gone has no label, and one that is described oddly is an error of the engine", async () => {
  const { engine, driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  const imagePath = `/images/${engine.imageId}/json`;
  answering(imagePath, { status: 404, body: {} });
  expect((await driver.measure(SPEC, containerId)).pinLabel).not.toBe(HELPER_PIN);
  for (const body of ["[]", '{"Config":7}', "nonsense"]) {
    answering(imagePath, { status: 200, body });
    await expect(driver.measure(SPEC, containerId)).rejects.toMatchObject({ code: "ENGINE_ERROR" });
  }
});

test("the containers of a store are listed by its mark; an odd list is an error of the engine", async () => {
  const { engine, driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  expect(await driver.list("store-1")).toEqual([{ sandboxId: "box", containerId, wasStarted: false }]);
  await driver.start(SPEC, containerId);
  expect(await driver.list("store-1")).toEqual([{ sandboxId: "box", containerId, wasStarted: true }]);
  const filters = JSON.parse(engine.calls.at(-1)?.query.get("filters") ?? "{}");
  expect(filters).toEqual({ label: ["dev.holdfast.store=store-1"] });
  for (const body of ["{}", '[{"Id":1}]', "nonsense"]) {
    answering("/containers/json", { status: 200, body });
    await expect(driver.list("store-1")).rejects.toMatchObject({ code: "ENGINE_ERROR" });
  }
});

test("the bridge is told paths inside the container, the image's CLIs and the limits", async () => {
  const { driver } = await rig();
  await expect(driver.bridgeConfig(SPEC, "none")).rejects.toMatchObject({ code: "CONTEXT_LOST" });
  const { containerId } = await driver.create(SPEC);
  const config = await driver.bridgeConfig(SPEC, containerId);
  expect(BridgeConfig.parse(config)).toEqual(config);
  expect(config).toMatchObject({
    isolation: "container",
    controllerSocket: "/run/holdfast/ctl.sock",
    tokenFile: "/run/holdfast/token",
    users: { firstUid: 20_001, lastUid: 20_128, gid: 20_000 },
    clis: [{ cli: "opencode", version: "1.14.50", command: ["/opt/clis/opencode"] }],
    limits: expect.objectContaining({ turnMs: 1234 }),
  });
});

test("the log's end comes without the engine's own bytes, also when it is cut", async () => {
  const { driver, answering } = await rig();
  const { containerId } = await driver.create(SPEC);
  const log = Buffer.concat([logPiece(1, "größe\n"), logPiece(2, "error\n")]);
  answering("/logs", { status: 200, body: log });
  expect(await driver.logTail(SPEC, containerId)).toBe("größe\nerror\n");
  answering("/logs", { status: 200, body: log.subarray(0, log.length - 3) });
  expect(await driver.logTail(SPEC, containerId)).toBe("größe\nerr");
  answering("/logs", { status: 404, body: {} });
  expect(await driver.logTail(SPEC, containerId)).toBe("");
});
