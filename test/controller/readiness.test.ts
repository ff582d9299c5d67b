// How a sandbox becomes ready: measured, started, challenged; seen through a host.
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import type { FakeBridge } from "../support/fake-bridge.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { idle, passingUntil, startFakeHost } from "../support/fake-host.ts";
import { DIGEST_B } from "../support/samples.ts";
import { until, within } from "../support/until.ts";

const failed = (code: string) => expect.objectContaining({ code });

async function boxed(clock?: FakeClock) {
  const fake = await startFakeHost(clock === undefined ? {} : { clock });
  const member = fake.member();
  return { fake, member, sandboxes: fake.sandboxes };
}

test("a start makes, measures, starts and challenges, in this order, and is recorded", async () => {
  const { fake, sandboxes } = await boxed();
  sandboxes.before.measure = () => void sandboxes.calls.push("measure");
  await fake.host.startSandbox("box");
  expect(sandboxes.calls).toEqual(["create", "measure", "start"]);
  expect(fake.bridge().paramsOf("bridge.challenge")).toHaveLength(1);
  expect(fake.onDisk("SELECT wanted, unready FROM sandboxes")).toEqual([
    { wanted: "running", unready: null },
  ]);
  expect(fake.host.sandboxes()[0]?.container).toMatchObject({ containerId: "container-box", generation: 1 });
});

test("one that is ready is not started or challenged again", async () => {
  const { fake, sandboxes } = await boxed();
  await Promise.all([fake.host.startSandbox("box"), fake.host.startSandbox("box")]);
  await fake.host.startSandbox("box");
  expect(sandboxes.count("start")).toBe(1);
  expect(fake.bridge().paramsOf("bridge.challenge")).toHaveLength(1);
});

test("a sandbox that does not measure as pinned is not started at all, and the reason is kept", async () => {
  const clock = new FakeClock();
  for (const measured of [
    { helper: { sha256: DIGEST_B } },
    { helper: { problem: "it is a link" } },
    { pinLabel: "http-agent-live-bridge=3" },
    { imageId: "sha256:other" },
    { manifest: null },
    { foreignMounts: ["/var/run/docker.sock"] },
    { changedCode: ["/opt/holdfast/node (changed)"] },
  ]) {
    const { fake, sandboxes } = await boxed(clock);
    sandboxes.measured = measured;
    await expect(fake.host.startSandbox("box")).rejects.toEqual(failed("ATTESTATION_FAILED"));
    await clock.elapse(60_000);
    expect(sandboxes.count("start")).toBe(0);
    expect(fake.host.sandboxes()[0]?.unready).not.toBeNull();
    const [kept] = fake.onDisk<{ reasons: string }>("SELECT reasons FROM attestations");
    expect(JSON.parse(kept?.reasons ?? "")).toHaveLength(1);
  }
});

test("a running helper that is not the pinned one is stopped, recorded, and not started again", async () => {
  const clock = new FakeClock();
  const faults: Array<[(bridge: FakeBridge) => void, RegExp]> = [
    [(bridge) => Object.assign(bridge, { pin: "http-agent-live-bridge=3" }), /=3/],
    [(bridge) => Object.assign(bridge, { pin: "http-agent-live-bridge=5" }), /=5/],
    [(bridge) => Object.assign(bridge, { pin: "" }), /needs/],
    [(bridge) => Object.assign(bridge, { token: "0".repeat(64) }), /token/],
    [(bridge) => Object.assign(bridge, { features: [] }), /feature/],
    [(bridge) => Object.assign(bridge, { helperSha256: DIGEST_B }), /other bytes/],
    [(bridge) => Object.assign(bridge, { clis: [{ cli: "opencode", version: "1" }] }), /opencode is 1/],
  ];
  for (const [spoil, reason] of faults) {
    const { fake, member, sandboxes } = await boxed(clock);
    sandboxes.onStart = (bridge) => {
      spoil(bridge);
      return bridge.dial();
    };
    const start = fake.host.startSandbox("box");
    await expect(start).rejects.toEqual(failed("ATTESTATION_FAILED"));
    await expect(start).rejects.toThrow(reason);
    expect(fake.host.sandboxes()[0]?.unready).toMatch(reason);
    await clock.elapse(60_000);
    expect(sandboxes.calls).toEqual(["create", "start", "stop"]);
    const settlement = await within("the turn", fake.host.submit(member, "hello").settlement);
    expect(settlement).toMatchObject({ outcome: "not_sent", error: { code: "ATTESTATION_FAILED" } });
    expect(fake.bridge().submissions()).toEqual([]);
  }
});

test("once it is the pinned one again, it becomes ready", async () => {
  const { fake, sandboxes } = await boxed();
  sandboxes.measured = { foreignMounts: ["/etc"] };
  await expect(fake.host.startSandbox("box")).rejects.toEqual(failed("ATTESTATION_FAILED"));
  sandboxes.measured = {};
  await fake.host.startSandbox("box");
  expect(fake.host.sandboxes()[0]?.unready).toBeNull();
});

test("it is measured anew before every start", async () => {
  const { fake, sandboxes } = await boxed();
  await fake.host.startSandbox("box");
  await fake.host.stopSandbox("box");
  sandboxes.measured = { helper: { sha256: DIGEST_B } };
  await expect(fake.host.startSandbox("box")).rejects.toEqual(failed("ATTESTATION_FAILED"));
  expect(sandboxes.count("start")).toBe(1);
});

test("a bridge that never dials is given up within its limit, with its last words", async () => {
  const clock = new FakeClock();
  const { fake, sandboxes } = await boxed(clock);
  sandboxes.onStart = async () => undefined;
  sandboxes.logText = "first\nit can't read its configuration\n";
  const result = await passingUntil(clock, "the start's end", fake.host.startSandbox("box"));
  expect(result).toMatchObject({
    code: "BRIDGE_GONE",
    message: expect.stringContaining("it can't read its configuration"),
  });
  expect(clock.monotonicMs()).toBeLessThan(25_000);
});

test("what fails in the engine is told as such, judges nothing, and is tried again", async () => {
  const { fake, sandboxes } = await boxed();
  for (const step of ["create", "measure", "start"] as const) {
    sandboxes.before[step] = () => Promise.reject(new HoldfastError("ENGINE_ERROR", `no ${step}`));
    await expect(fake.host.startSandbox("box")).rejects.toThrow(`no ${step}`);
    delete sandboxes.before[step];
  }
  expect(fake.host.sandboxes()[0]?.unready).toBeNull();
  await fake.host.startSandbox("box");
});

test("a container that is gone is lost: nothing is made in its place", async () => {
  const { fake, sandboxes } = await boxed();
  await fake.host.startSandbox("box");
  sandboxes.die("box", "missing");
  await expect(fake.host.startSandbox("box")).rejects.toEqual(failed("CONTEXT_LOST"));
  expect(sandboxes.count("create")).toBe(1);
});

/** The host is given another build while its sandbox has a turn. */
async function rebuiltInATurn() {
  const made = await boxed();
  const other = made.fake.member();
  await made.fake.host.startSandbox("box");
  const turn = made.fake.host.submit(made.member, "hello", { id: "t-1" });
  await made.fake.bridge().untilAsked("turn.submit");
  const before = made.sandboxes.build;
  made.sandboxes.measured = {
    imageId: before.imageId,
    helper: { sha256: before.helperSha256 },
    manifest: { sha256: before.manifestSha256 ?? "" },
  };
  made.sandboxes.build = {
    ...before,
    helperSha256: DIGEST_B,
    imageId: "sha256:new",
    manifestSha256: DIGEST_B,
  };
  return { ...made, other, turn, before };
}

test("P49: a turn that runs in a sandbox of an earlier build is followed to its end by the controller of a newer one", async () => {
  const { fake, member, other, sandboxes } = await rebuiltInATurn();
  fake.bridge().vanish();
  const host = await fake.reopen();
  const bridge = fake.bridge();
  bridge.answers["turn.recover"] = async () => ({ state: "active" });
  expect(await bridge.dial()).toBe("welcome");
  await bridge.untilAsked("bridge.challenge", 2);
  const turn = host.running("t-1");
  if (turn === null) throw new Error("the turn is not followed");
  // It can be ended, and what it asks answered; a new turn is not sent.
  await turn.abort();
  expect(bridge.paramsOf("turn.abort")).toEqual([{ turn: "t-1" }]);
  const refused = await within("the refusal", host.submit(other, "hello").settlement);
  expect(refused).toMatchObject({
    outcome: "not_sent",
    error: {
      code: "SANDBOX_OUTDATED",
      message: expect.stringMatching(/earlier build.*image is not the one/),
    },
  });
  expect(sandboxes.count("stop")).toBe(0);
  bridge.end();
  expect(await within("its end", turn.settlement)).toMatchObject({ outcome: "completed", settled: true });

  const late = await within("the verdict", host.submit(member, "and now?").settlement);
  expect(late).toMatchObject({ outcome: "not_sent", error: { code: "ATTESTATION_FAILED" } });
  expect(sandboxes.calls.filter((call) => call !== "list")).toEqual(["create", "start", "stop"]);
  expect(fake.onDisk("SELECT detail FROM audit WHERE what = 'sandbox.outdated'")).toHaveLength(1);
});

test("P49: back at the build that it was made by, the sandbox goes on", async () => {
  const { fake, member, turn, before, sandboxes } = await rebuiltInATurn();
  fake.bridge().end();
  await turn.settlement;
  fake.bridge().vanish();
  const host = await fake.reopen();
  await expect(host.startSandbox("box")).rejects.toEqual(failed("ATTESTATION_FAILED"));
  sandboxes.build = before;
  sandboxes.measured = {};
  host.submit(member, "and now?");
  await fake.bridge().untilAsked("turn.submit", 2);
  expect(fake.bridge().submission()).toMatchObject({ number: 2, settledTurns: 1 });
});

test("a sandbox that is neither of this build nor what its own made it is stopped, turn or not", async () => {
  for (const tampered of [
    { helper: { sha256: "d".repeat(64) } },
    { changedCode: ["/opt/holdfast/node (changed)"] },
    { foreignMounts: ["/etc"] },
    { imageId: "sha256:third" },
  ]) {
    const { fake, sandboxes } = await rebuiltInATurn();
    Object.assign(sandboxes.measured, tampered);
    fake.bridge().vanish();
    const host = await fake.reopen();
    await until("the turn's end", () => host.turn("t-1").state === "unknown");
    expect(sandboxes.count("stop")).toBe(1);
  }
});

test("each life of a bridge is recorded with how the one before it ended", async () => {
  const { fake } = await boxed();
  await fake.host.startSandbox("box");
  await fake.host.stopSandbox("box");
  await fake.host.startSandbox("box");
  expect(fake.onDisk("SELECT detail FROM audit WHERE what = 'bridge.life'")).toEqual([
    { detail: "life 2, the end of the one before: clean" },
    { detail: "life 3, the end of the one before: clean" },
  ]);
});

test("a sandbox that was found running and dies while its bridge is awaited is started, once", async () => {
  const clock = new FakeClock();
  const { fake, sandboxes } = await boxed(clock);
  await passingUntil(clock, "the first start", fake.host.startSandbox("box"));
  fake.bridge().vanish();
  await idle(clock, 1000);
  let looks = 0;
  // Seen running by the first look, and dead by the next one.
  sandboxes.before.state = () => {
    looks += 1;
    if (looks === 2) sandboxes.die("box");
  };
  await passingUntil(clock, "the second start", fake.host.startSandbox("box"));
  expect(sandboxes.count("start")).toBe(2);
  expect(fake.host.sandboxes()[0]?.unready).toBeNull();
});

test("a bridge that ends at its start is told with its last words, soon, and is not started again", async () => {
  const clock = new FakeClock();
  const { fake, sandboxes } = await boxed(clock);
  sandboxes.logText = '{"code":"SANDBOX_UNFIT","error":"the sandbox can\'t write to /state (EROFS)"}\n';
  sandboxes.onStart = async () => sandboxes.die("box");
  const startedMs = clock.monotonicMs();
  const ended = await passingUntil(clock, "the start's end", fake.host.startSandbox("box"));
  expect(ended).toMatchObject({
    code: "SANDBOX_UNFIT",
    message: "the sandbox can't write to /state (EROFS)",
  });
  expect(clock.monotonicMs() - startedMs).toBeLessThan(5000);
  expect(sandboxes.count("start")).toBe(1);
});
