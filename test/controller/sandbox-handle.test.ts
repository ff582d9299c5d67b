// A sandbox's link, its stop and removal. How it becomes ready: readiness.test.ts; how its turns are watched: turn-watch.test.ts.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { closeServer, listenOn } from "../../controller/unix-server.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { FakeBridge } from "../support/fake-bridge.ts";
import type { FakeClock } from "../support/fake-clock.ts";
import { type FakeHost, KEY, startFakeHost } from "../support/fake-host.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { until, within } from "../support/until.ts";

const failed = (code: string) => expect.objectContaining({ code });
const boxOf = (fake: FakeHost) => join(fake.directory, "s", "box");

async function boxed(clock?: FakeClock) {
  const fake = await startFakeHost(clock === undefined ? {} : { clock });
  const member = fake.member();
  return { fake, member, sandboxes: fake.sandboxes };
}

/** A turn that the bridge has taken and that runs. */
async function running(clock?: FakeClock) {
  const made = await boxed(clock);
  await made.fake.host.startSandbox("box");
  const turn = made.fake.host.submit(made.member, "hello", { id: "t-1" });
  turn.settlement.catch(() => undefined);
  await made.fake.bridge().untilAsked("turn.submit");
  return { ...made, turn, bridge: made.fake.bridge() };
}

test("after a link was lost the helper is challenged again before the next turn", async () => {
  const { fake, member } = await boxed();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  bridge.vanish();
  await until("the end", () => bridge.closes.length === 1);
  await bridge.dial();
  fake.host.submit(member, "hello");
  await bridge.untilAsked("turn.submit");
  expect(bridge.asked.map(({ method }) => method)).toEqual([
    "bridge.challenge",
    "bridge.status",
    "bridge.challenge",
    "bridge.status",
    "turn.submit",
  ]);
});

/** Numbers of the links on which the bridge was challenged and given a turn. */
function linksOf(bridge: FakeBridge): { challenged: number[]; submitted: number[] } {
  const seen = { challenged: [] as number[], submitted: [] as number[] };
  const { "bridge.challenge": challenge, "turn.submit": submit } = bridge.answers;
  bridge.answers["bridge.challenge"] = (params) => {
    seen.challenged.push(bridge.welcomes.length);
    return challenge(params);
  };
  bridge.answers["turn.submit"] = (params) => {
    seen.submitted.push(bridge.welcomes.length);
    return submit(params);
  };
  return seen;
}

test("no turn goes to a bridge that came after the attestation", async () => {
  const { fake, member, sandboxes } = await boxed();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const links = linksOf(bridge);
  // Whenever the turn's way is prepared, the link becomes another one.
  sandboxes.before.pinned = async () => {
    if (bridge.welcomes.length > 2) return;
    bridge.vanish();
    await until("the end", () => bridge.closes.length === bridge.welcomes.length);
    await bridge.dial();
  };
  fake.host.submit(member, "hello");
  await bridge.untilAsked("turn.submit");
  expect(links).toEqual({ challenged: [3], submitted: [3] });
});

test("a bridge that takes the place of one that is still linked is challenged of its own", async () => {
  const { fake, member } = await boxed();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const links = linksOf(bridge);
  await bridge.dial();
  fake.host.submit(member, "hello");
  await bridge.untilAsked("turn.submit");
  expect(links).toEqual({ challenged: [2], submitted: [2] });
});

test("a stale controller asks nothing of the engine that changes anything", async () => {
  const { fake, sandboxes } = await boxed();
  await fake.host.startSandbox("box");
  await fake.host.stopSandbox("box");
  fake.host.createSandbox({ kind: "docker", id: "new" });
  const calls = [...sandboxes.calls];
  const other = new DatabaseSync(join(fake.directory, "holdfast.db"));
  other.exec("UPDATE meta SET value = '99' WHERE name = 'fence'");
  other.close();
  for (const step of [
    () => fake.host.startSandbox("new"),
    () => fake.host.startSandbox("box"),
    () => fake.host.stopSandbox("box"),
    () => fake.host.removeSandbox("box"),
  ]) {
    await expect(step()).rejects.toEqual(failed("FENCED"));
  }
  expect(sandboxes.calls).toEqual(calls);
});

test("directory, sockets, token and configuration are the owner's alone; the key is in none of it", async () => {
  const { fake, member } = await boxed();
  await fake.host.startSandbox("box");
  fake.host.submit(member, "hello");
  await fake.bridge().untilAsked("turn.submit");
  const modes = readdirSync(boxOf(fake)).map((name) => [
    name,
    statSync(join(boxOf(fake), name)).mode & 0o777,
  ]);
  expect(modes).toEqual(["bridge.json", "ctl.sock", "model.sock", "token"].map((name) => [name, 0o600]));
  expect(statSync(boxOf(fake)).mode & 0o777).toBe(0o700);
  const token = fake.bridge().ownToken();
  const texts = ["bridge.json", "token"].map((name) => readFileSync(join(boxOf(fake), name), "utf8"));
  expect(texts.join("")).not.toContain(KEY);
  expect(texts[0]).not.toContain(token);
  const stored = ["holdfast.db", "holdfast.db-wal"].map((name) =>
    readFileSync(join(fake.directory, name), "latin1"),
  );
  for (const secret of [KEY, token, "hello"]) expect(stored.join("").includes(secret), secret).toBe(false);
  expect(JSON.stringify([fake.warnings, fake.bridge().asked.slice(0, 1)])).not.toContain(KEY);
});

test("a stop is refused while a turn runs; with abort it ends what is not settled as unknown", async () => {
  const { fake, turn, sandboxes } = await running();
  await expect(fake.host.stopSandbox("box")).rejects.toEqual(failed("MEMBER_BUSY"));
  expect(sandboxes.count("stop")).toBe(0);
  await fake.host.stopSandbox("box", { abort: true });
  expect(await turn.settlement).toMatchObject({ outcome: "unknown", settled: false });
  expect(fake.onDisk("SELECT wanted FROM sandboxes")).toEqual([{ wanted: "stopped" }]);
  expect(readdirSync(boxOf(fake))).toEqual(["bridge.json", "token"]);
});

test("a settlement that is the bridge's last word before it stops is adopted", async () => {
  const { fake, turn, bridge, sandboxes } = await running();
  sandboxes.before.stop = () => {
    bridge.end();
    bridge.close();
    sandboxes.states.set("box", "stopped");
  };
  await fake.host.stopSandbox("box", { abort: true });
  expect(await turn.settlement).toEqual({ ...SETTLEMENT, context: "NEW" });
});

test("a stop ends the start that is under way, and the next start waits for it", async () => {
  const { fake, sandboxes } = await boxed();
  const gate = Promise.withResolvers<void>();
  sandboxes.before.start = () => gate.promise;
  const start = expect(fake.host.startSandbox("box")).rejects.toEqual(failed("STOPPED"));
  await until("the start", () => sandboxes.count("start") === 1);
  const stop = fake.host.stopSandbox("box");
  const again = Promise.withResolvers<void>();
  sandboxes.before.stop = () => again.promise;
  gate.resolve();
  await start;
  await until("the stop", () => sandboxes.count("stop") === 1);
  const restart = fake.host.startSandbox("box");
  again.resolve();
  await Promise.all([stop, restart]);
  expect(sandboxes.calls).toEqual(["create", "start", "stop", "start"]);
  expect(fake.onDisk("SELECT wanted FROM sandboxes")).toEqual([{ wanted: "running" }]);
  expect(sandboxes.states.get("box")).toBe("running");
});

test("a turn that waits for its sandbox when that is stopped is not sent, also not later", async () => {
  const { fake, member, sandboxes } = await boxed();
  const gate = Promise.withResolvers<void>();
  sandboxes.before.start = () => gate.promise;
  const turn = fake.host.submit(member, "hello");
  await until("the start", () => sandboxes.count("start") === 1);
  const stop = fake.host.stopSandbox("box", { abort: true });
  gate.resolve();
  await stop;
  expect(await turn.settlement).toMatchObject({ outcome: "not_sent", settled: false });
  expect(fake.bridge().submissions()).toEqual([]);
  expect(sandboxes.states.get("box")).toBe("stopped");
});

test("a sandbox that never ran can be stopped and removed", async () => {
  const { fake, sandboxes } = await boxed();
  await fake.host.stopSandbox("box");
  await fake.host.removeSandbox("box");
  expect(sandboxes.calls).toEqual([]);
  expect(fake.host.sandboxes()).toEqual([]);
});

test("removing takes everything away, ends open turns as unknown, and may be repeated", async () => {
  const { fake, turn, member } = await running();
  await fake.host.removeSandbox("box");
  await fake.host.removeSandbox("box");
  expect(await turn.settlement).toMatchObject({ outcome: "unknown" });
  expect(existsSync(boxOf(fake))).toBe(false);
  expect(fake.host.sandboxes()).toEqual([]);
  await expect(fake.host.startSandbox("box")).rejects.toEqual(failed("SANDBOX_UNKNOWN"));
  expect(existsSync(boxOf(fake))).toBe(false);
  expect(() =>
    fake.host.createMember({ sandbox: "box", cli: "opencode", ...fake.host.member(member).options }),
  ).toThrow(failed("SANDBOX_UNKNOWN"));
});

test("a removal that the engine refuses can be repeated", async () => {
  const { fake, sandboxes } = await boxed();
  await fake.host.startSandbox("box");
  sandboxes.before.remove = () => Promise.reject(new HoldfastError("ENGINE_ERROR", "busy"));
  await expect(fake.host.removeSandbox("box")).rejects.toThrow("busy");
  delete sandboxes.before.remove;
  await fake.host.removeSandbox("box");
  expect(existsSync(boxOf(fake))).toBe(false);
});

test("a start that finds its socket taken leaves nothing behind that hinders the next", async () => {
  const { fake } = await boxed();
  mkdirSync(boxOf(fake), { recursive: true });
  const squatter = await listenOn(join(boxOf(fake), "ctl.sock"), 0o600);
  await expect(fake.host.startSandbox("box")).rejects.toEqual(failed("STORE_OWNED"));
  await closeServer(squatter);
  await fake.host.startSandbox("box");
});

test("the model's socket is open as long as the sandbox is attached", async () => {
  const { fake } = await boxed();
  await fake.host.startSandbox("box");
  const probe = connect(join(boxOf(fake), "model.sock"));
  await within("the connection", new Promise<void>((resolve) => probe.once("connect", () => resolve())));
  probe.destroy();
  await fake.host.stopSandbox("box");
  expect(existsSync(join(boxOf(fake), "model.sock"))).toBe(false);
});

test("what a stopped sandbox ended with is recorded, and one that had to be killed is said", async () => {
  const { fake, sandboxes } = await boxed();
  await fake.host.startSandbox("box");
  await fake.host.stopSandbox("box");
  expect(fake.warnings).toEqual([]);
  await fake.host.startSandbox("box");
  sandboxes.exitCode = 137;
  await fake.host.stopSandbox("box");
  expect(fake.warnings).toEqual([expect.stringContaining("its bridge had to be killed")]);
  expect(fake.onDisk("SELECT detail FROM audit WHERE what = 'sandbox.stopped'")).toEqual([
    { detail: "exit code 0" },
    { detail: "exit code 137" },
  ]);
});
