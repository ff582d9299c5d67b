// The probe over a real store, real sockets and a bridge that plays by the script; over containers: test/container/deployment.
import { expect, test } from "vitest";
import { askBridge, probeSandbox } from "../../controller/sandbox-probe.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { startFakeHost } from "../support/fake-host.ts";
import { DIGEST_A, DIGEST_B } from "../support/samples.ts";

async function started() {
  const fake = await startFakeHost();
  fake.member();
  await fake.host.startSandbox("box");
  const { calls } = fake.sandboxes;
  calls.length = 0;
  const probe = async () => {
    const [found] = (await fake.host.deployment()).sandboxes;
    if (found === undefined) throw new Error("there is no sandbox");
    return found;
  };
  return { fake, bridge: fake.bridge(), probe, calls };
}

test("a running bridge is asked over its link, with a nonce of its own each time, and nothing is started", async () => {
  const { bridge, probe, calls } = await started();
  const asked = bridge.paramsOf("bridge.challenge").length;
  for (let times = 0; times < 2; times += 1) {
    expect(await probe()).toEqual({
      sandbox: "box",
      kind: "docker",
      place: "running",
      reasons: [],
      report: { pin: HELPER_PIN, helperSha256: DIGEST_A, epoch: bridge.epoch },
      heartbeatMs: expect.closeTo(0, -3) as number,
      notAsked: "",
    });
  }
  const nonces = bridge.paramsOf("bridge.challenge").slice(asked);
  expect(new Set(nonces.map(({ nonce }) => nonce)).size).toBe(nonces.length);
  expect(calls).toEqual([]);
});

test("a bridge of an earlier version, of other bytes or of another token is told by what it says", async () => {
  const { bridge, probe, fake, calls } = await started();
  bridge.pin = "http-agent-live-bridge=3";
  expect((await probe()).reasons).toEqual([
    `the running helper says http-agent-live-bridge=3, this host needs ${HELPER_PIN}`,
  ]);
  bridge.pin = HELPER_PIN;
  bridge.helperSha256 = DIGEST_B;
  expect(await probe()).toMatchObject({
    reasons: [
      "the running helper reports other bytes than the pinned ones",
      "the answer to the challenge is wrong",
    ],
    report: { helperSha256: DIGEST_B },
  });
  bridge.helperSha256 = DIGEST_A;
  bridge.answers["bridge.challenge"] = async () => ({ ...bridge.report("a".repeat(64)) });
  expect((await probe()).reasons).toEqual(["the answer to the challenge is wrong"]);
  // Looked at, and left as it is: whether it may take a turn is decided where turns are.
  expect(calls).toEqual([]);
  expect(fake.host.sandboxes()[0]).toMatchObject({ unready: null, wanted: "running" });
});

test("a bridge that does not answer, and one that is on no link, are reasons", async () => {
  const { bridge, probe, fake } = await started();
  bridge.answers["bridge.challenge"] = () => Promise.reject(new HoldfastError("STOPPED", "it is stopping"));
  expect(await probe()).toMatchObject({
    place: "running",
    report: null,
    reasons: ["its bridge does not answer: it is stopping"],
  });
  bridge.vanish();
  await fake.reopen();
  bridge.pin = "http-agent-live-bridge=5";
  const dialling = (async () => {
    while ((await bridge.dial().catch(() => "closed")) !== "refuse");
  })();
  expect((await probe()).reasons).toEqual([
    `its bridge can't be asked: the bridge says http-agent-live-bridge=5, this host needs ${HELPER_PIN}`,
  ]);
  await dialling;
});

test("new host and old image: what was made by another build is told, whether it runs or not", async () => {
  const { fake, probe } = await started();
  fake.sandboxes.build = { ...fake.sandboxes.build, imageId: "sha256:new", helperSha256: DIGEST_B };
  fake.sandboxes.measured = { imageId: "sha256:1234", helper: { sha256: DIGEST_A } };
  const reasons = [
    "the container's image is not the one that this host built",
    "the helper's bytes differ from the pinned ones",
  ];
  const running = await probe();
  expect(running.reasons).toEqual(expect.arrayContaining(reasons));
  expect(running.reasons).toContain("the running helper reports other bytes than the pinned ones");
  fake.sandboxes.die("box");
  expect(await probe()).toMatchObject({
    place: "stopped",
    reasons,
    report: null,
    notAsked: "it does not run",
  });
});

test("one that was never made, one that is gone and one that can't be looked at", async () => {
  const { fake, probe } = await started();
  fake.host.createSandbox({ kind: "docker", id: "new" });
  const { sandboxes } = await fake.host.deployment();
  expect(sandboxes.find(({ sandbox }) => sandbox === "new")).toMatchObject({
    place: "stopped",
    reasons: [],
    notAsked: "nothing was made for it yet",
  });
  fake.sandboxes.states.set("box", "missing");
  expect(await probe()).toMatchObject({ place: "missing", reasons: ["what was made for it is gone"] });
  fake.sandboxes.before.state = () => {
    throw new HoldfastError("ENGINE_MISSING");
  };
  expect(await probe()).toMatchObject({
    place: "unknown",
    reasons: [expect.stringMatching(/^it can't be looked at: /)],
  });
});

test("a link that is another controller's is not asked for, and what can be measured is", async () => {
  const { fake } = await started();
  const [row] = fake.host.sandboxes();
  if (row === undefined) throw new Error("there is no sandbox");
  const spec = { storeId: "s", sandboxId: "box", generation: 1, directory: row.directory };
  const probe = () => probeSandbox({ row, spec, driver: fake.sandboxes, link: null });
  expect(await probe()).toMatchObject({
    place: "running",
    reasons: [],
    report: null,
    notAsked: "its link belongs to the controller that holds the store",
  });
  fake.sandboxes.measured = { helper: { sha256: DIGEST_B } };
  expect((await probe()).reasons).toEqual(["the helper's bytes differ from the pinned ones"]);
});

test("a bridge whose token is gone can't be asked, which is its reason", async () => {
  const link = { request: () => Promise.reject(new Error("not reached")), silentMs: () => 5 };
  const answer = await askBridge({
    row: () => ({ directory: "/nonexistent/box" }),
    driver: { pinned: () => Promise.reject(new HoldfastError("IMAGE_MISSING", "no image")) },
    link,
  });
  expect(answer).toEqual({ reasons: ["no image"], report: null, heartbeatMs: 5 });
});
