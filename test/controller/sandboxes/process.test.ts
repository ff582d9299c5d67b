import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type ProcessOptions, processSandboxes } from "../../../controller/sandboxes/process.ts";
import { BridgeConfig } from "../../../protocol/bridge-config.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { until } from "../../support/until.ts";

const FOREVER = `console.log("ready"); setInterval(() => undefined, 60_000);`;
const IGNORES_SIGTERM = `process.on("SIGTERM", () => console.log("asked")); ${FOREVER}`;
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

function rig(program: string, options: Partial<ProcessOptions> = {}) {
  const root = temporaryDirectory();
  const bridgePath = join(root, "bridge.cjs");
  writeFileSync(bridgePath, program);
  const directory = join(root, "box");
  mkdirSync(directory);
  const spec = { storeId: "store-1", sandboxId: "box", generation: 1, directory };
  const driver = processSandboxes({
    bridgePath,
    node: process.execPath,
    clis: [{ cli: "opencode", version: "1.14.50", command: ["/opt/opencode", "serve"] }],
    limits: { turnMs: 1234 },
    environment: { PATH: "/usr/bin:/bin", HOLDFAST_TEST_RUN: process.env.HOLDFAST_TEST_RUN },
    ...options,
  });
  onTestFinished(async () => {
    // A record that a test broke names no process.
    if (recordOf(directory) !== null) await driver.remove(spec, "any");
  });
  const started = async () => {
    const { containerId } = await driver.create(spec);
    await driver.start(spec, containerId);
    await until("its first words", async () => (await driver.logTail(spec, containerId)) !== "");
    return { containerId, pid: recordOf(directory)?.pid as number };
  };
  return { driver, spec, directory, bridgePath, started };
}

function recordOf(directory: string): { containerId: string; pid: number | null; startTicks: string } | null {
  try {
    return JSON.parse(readFileSync(join(directory, "process.json"), "utf8"));
  } catch {
    // None, or none that can be read.
    return null;
  }
}

test("what belongs beside the bridge is copied with it and removed with it", async () => {
  const extension = join(temporaryDirectory(), "pi-extension.mjs");
  writeFileSync(extension, "export default () => undefined;");
  const { driver, spec, directory } = rig(FOREVER, { besideBridge: [extension] });
  await driver.create(spec);
  writeFileSync(extension, "export default () => 'of a later build';");
  expect(readFileSync(join(directory, "pi-extension.mjs"), "utf8")).toBe("export default () => undefined;");
  await driver.remove(spec, "any");
  expect(readdirSync(directory)).toEqual([]);
});

test("what is pinned is the bundle's own digest, and there is no image", async () => {
  const { driver } = rig(FOREVER);
  expect(driver.hasImage).toBe(false);
  expect(await driver.pinned()).toMatchObject({
    helperSha256: sha256(FOREVER),
    imageId: null,
    manifestSha256: null,
  });
});

test("a bundle that was not made is named as such", async () => {
  const { driver, bridgePath } = rig(FOREVER);
  rmSync(bridgePath);
  await expect(driver.pinned()).rejects.toMatchObject({ code: "IMAGE_MISSING" });
});

test("a sandbox has folders and a record for its owner alone, and does not run yet", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  expect(await driver.state(spec, containerId)).toBe("stopped");
  expect(readdirSync(directory)).toEqual(["bridge.cjs", "process.json", "slots", "state", "workspace"]);
  const modes = ["process.json", "slots", "state", "workspace"].map(
    (name) => statSync(join(directory, name)).mode & 0o777,
  );
  expect(modes).toEqual([0o600, 0o700, 0o700, 0o700]);
  expect(await driver.list("store-1")).toEqual([]);
});

test("it is bound by id: a record of another place is missing", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  expect(await driver.state(spec, "process-another")).toBe("missing");
  rmSync(join(directory, "process.json"));
  expect(await driver.state(spec, containerId)).toBe("missing");
});

test("starting one that runs makes no second process", async () => {
  const { driver, spec, directory, started } = rig(FOREVER);
  const { containerId, pid } = await started();
  expect(await driver.state(spec, containerId)).toBe("running");
  await driver.start(spec, containerId);
  expect(recordOf(directory)?.pid).toBe(pid);
});

test("a process leads a group of its own, so that the end of this one is not its end", async () => {
  const { started } = rig(FOREVER);
  const { pid } = await started();
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  expect(Number(fields[2])).toBe(pid);
});

test("it stops when it is asked, and can be started again as another process", async () => {
  const { driver, spec, directory, started } = rig(FOREVER);
  const { containerId, pid } = await started();
  await driver.stop(spec, containerId, 5000);
  await driver.stop(spec, containerId, 5000);
  expect(await driver.state(spec, containerId)).toBe("stopped");
  await driver.start(spec, containerId);
  expect(await driver.state(spec, containerId)).toBe("running");
  expect(recordOf(directory)?.pid).not.toBe(pid);
});

test("one that ignores the asking is forced, and only after its grace", async () => {
  const { driver, spec, started } = rig(IGNORES_SIGTERM);
  const { containerId } = await started();
  const before = performance.now();
  await driver.stop(spec, containerId, 200);
  expect(performance.now() - before).toBeGreaterThanOrEqual(200);
  expect(await driver.state(spec, containerId)).toBe("stopped");
  expect(await driver.logTail(spec, containerId)).toContain("asked");
});

test("one that was killed is stopped, not missing", async () => {
  const { driver, spec, started } = rig(FOREVER);
  const { containerId, pid } = await started();
  process.kill(pid, "SIGKILL");
  await until("its end", async () => (await driver.state(spec, containerId)) === "stopped");
});

test("a number that was given to another process since is not ours: it is neither running nor ended", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  const stranger = spawn(process.execPath, ["-e", FOREVER], { stdio: ["ignore", "pipe", "inherit"] });
  const gone = once(stranger, "exit");
  onTestFinished(async () => {
    stranger.kill("SIGKILL");
    await gone;
  });
  await once(stranger.stdout, "data");
  writeFileSync(
    join(directory, "process.json"),
    JSON.stringify({ containerId, pid: stranger.pid, startTicks: "1" }),
  );
  expect(await driver.state(spec, containerId)).toBe("stopped");
  await driver.stop(spec, containerId, 1000);
  expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  expect(existsSync(`/proc/${stranger.pid}`)).toBe(true);
});

test("the process runs its own copy: an upgrade of the bundle changes what is pinned, not what runs", async () => {
  const { driver, spec, bridgePath } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  writeFileSync(bridgePath, `${FOREVER} // newer`);
  expect((await driver.measure(spec, containerId)).helper).toEqual({ sha256: sha256(FOREVER) });
  expect((await driver.pinned()).helperSha256).toBe(sha256(`${FOREVER} // newer`));
});

test("a copy that was changed or is gone shows in the measuring", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  writeFileSync(join(directory, "bridge.cjs"), "changed");
  const measured = await driver.measure(spec, containerId);
  expect(measured).toEqual({
    imageId: null,
    pinLabel: null,
    helper: { sha256: sha256("changed") },
    manifest: null,
    foreignMounts: [],
    changedCode: [],
  });
  rmSync(join(directory, "bridge.cjs"));
  expect((await driver.measure(spec, containerId)).helper).toHaveProperty("problem");
});

test("the process gets the given environment alone, and no secret in its arguments", async () => {
  const { driver, spec, directory, started } = rig(
    `console.log(JSON.stringify({ env: process.env, argv: process.argv.slice(1), cwd: process.cwd() })); ${FOREVER}`,
  );
  const { containerId } = await started();
  const said = JSON.parse((await driver.logTail(spec, containerId)).split("\n")[0] ?? "");
  expect(Object.keys(said.env).sort()).toEqual(["HOLDFAST_TEST_RUN", "PATH"]);
  expect(said.argv).toEqual([join(directory, "bridge.cjs"), join(directory, "bridge.json")]);
  expect(said.cwd).toBe(directory);
});

test("the log keeps both outputs over starts, and only its end is read", async () => {
  const { driver, spec, directory, started } = rig(
    `console.error("from stderr"); console.log("x".repeat(20_000) + "last"); ${FOREVER}`,
  );
  const { containerId } = await started();
  await until("the last words", async () => (await driver.logTail(spec, containerId)).endsWith("ready\n"));
  expect((await driver.logTail(spec, containerId)).length).toBe(8000);
  const log = join(directory, "bridge.log");
  expect(readFileSync(log, "utf8")).toMatch(/^from stderr\n/);
  expect(statSync(log).mode & 0o777).toBe(0o600);
  const { size } = statSync(log);
  await driver.stop(spec, containerId, 5000);
  await driver.start(spec, containerId);
  await until("the words of the second start", () => statSync(log).size === 2 * size);
});

test("a node that is not there is told at the start", async () => {
  const { driver, spec } = rig(FOREVER, { node: "/none/node" });
  const { containerId } = await driver.create(spec);
  await expect(driver.start(spec, containerId)).rejects.toMatchObject({ code: "BRIDGE_GONE" });
  expect(await driver.state(spec, containerId)).toBe("stopped");
  expect(await driver.logTail(spec, containerId)).toBe("");
});

test("a record that can't be read is an error of the store, not a sandbox that is missing", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  for (const text of ["", '{"pid":"1"}', "{"]) {
    writeFileSync(join(directory, "process.json"), text);
    await expect(driver.state(spec, containerId)).rejects.toMatchObject({ code: "STORE_ERROR" });
  }
});

test("removing ends the process and takes everything of it away; again, it does nothing", async () => {
  const { driver, spec, directory, started } = rig(FOREVER);
  const { containerId, pid } = await started();
  writeFileSync(join(directory, "workspace", "file"), "of the user");
  await driver.remove(spec, containerId);
  await driver.remove(spec, containerId);
  expect(existsSync(`/proc/${pid}`)).toBe(false);
  expect(readdirSync(directory)).toEqual([]);
  expect(await driver.state(spec, containerId)).toBe("missing");
});

test("the bridge is told that nothing isolates it, and paths of the host", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const config = await driver.bridgeConfig(spec, "none");
  expect(BridgeConfig.parse(config)).toEqual(config);
  expect(config).toMatchObject({
    isolation: "process",
    users: null,
    workspace: join(directory, "workspace"),
    clis: [{ cli: "opencode", version: "1.14.50", command: ["/opt/opencode", "serve"] }],
    limits: expect.objectContaining({ turnMs: 1234 }),
  });
});

test("P46: links that an agent put in the place of the sandbox's files are not followed, by no step", async () => {
  const { driver, spec, directory, started } = rig(FOREVER);
  const sentinel = join(temporaryDirectory(), "sentinel");
  mkdirSync(sentinel);
  for (const name of ["keep", "log", "bridge"]) writeFileSync(join(sentinel, name), "mine");
  const kept = () => readdirSync(sentinel).map((name) => readFileSync(join(sentinel, name), "utf8"));
  const { containerId } = await started();
  await driver.stop(spec, containerId, 5000);
  for (const [name, target] of [
    ["workspace", sentinel],
    ["state", sentinel],
    ["bridge.log", join(sentinel, "log")],
  ] as const) {
    rmSync(join(directory, name), { recursive: true });
    symlinkSync(target, join(directory, name));
  }
  expect(await driver.logTail(spec, containerId)).toBe("");
  await expect(driver.start(spec, containerId)).rejects.toMatchObject({ code: "SANDBOX_FOREIGN" });
  expect(kept()).toEqual(["mine", "mine", "mine"]);
  await driver.remove(spec, containerId);
  expect(readdirSync(directory)).toEqual([]);
  expect(kept()).toEqual(["mine", "mine", "mine"]);
  // A copy of the bridge is put in the place of a link, and not through it.
  symlinkSync(join(sentinel, "bridge"), join(directory, "bridge.cjs"));
  await driver.create(spec);
  expect(kept()).toEqual(["mine", "mine", "mine"]);
  expect(readFileSync(join(directory, "bridge.cjs"), "utf8")).toBe(FOREVER);
});

test("P46: a sandbox whose whole folder became a link is not started and not removed", async () => {
  const { driver, spec, directory } = rig(FOREVER);
  const { containerId } = await driver.create(spec);
  const aside = `${directory}-aside`;
  renameSync(directory, aside);
  const sentinel = join(temporaryDirectory(), "sentinel");
  mkdirSync(join(sentinel, "workspace"), { recursive: true });
  copyFileSync(join(aside, "process.json"), join(sentinel, "process.json"));
  symlinkSync(sentinel, directory);
  const foreign = { code: "SANDBOX_FOREIGN" };
  await expect(driver.start(spec, containerId)).rejects.toMatchObject(foreign);
  await expect(driver.remove(spec, containerId)).rejects.toMatchObject(foreign);
  expect(readdirSync(sentinel)).toEqual(["process.json", "workspace"]);
  rmSync(directory);
  renameSync(aside, directory);
});
