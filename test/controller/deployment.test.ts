import { expect, test } from "vitest";
import { deploymentOf } from "../../controller/deployment.ts";
import { readHeartbeat } from "../../controller/heartbeat.ts";
import { readRevision } from "../../controller/revision.ts";
import type { SandboxProbe } from "../../controller/sandbox-probe.ts";
import type { SandboxRow } from "../../controller/store/records.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { startFakeHost } from "../support/fake-host.ts";
import { BUILD } from "../support/fake-sandbox.ts";
import { DIGEST_A, DIGEST_B } from "../support/samples.ts";
import { until } from "../support/until.ts";

const PROBE: SandboxProbe = {
  sandbox: "box",
  kind: "docker",
  place: "running",
  reasons: [],
  report: { pin: HELPER_PIN, helperSha256: DIGEST_A, epoch: 1 },
  heartbeatMs: 5,
  notAsked: "",
};
const row = (id: string, changes: object = {}) =>
  ({ id, kind: "docker", wanted: "running", ...changes }) as SandboxRow;
const DOCKER = new Map([["docker" as const, { pinned: async () => BUILD }]]);

function report(rows: SandboxRow[], probe: Partial<SandboxProbe> = {}) {
  return deploymentOf({
    store: { sandboxes: () => rows },
    drivers: DOCKER,
    probe: async ({ id }) => ({ ...PROBE, sandbox: id, ...probe }),
  });
}

test("controller, builds and every sandbox that is not removed", async () => {
  const found = await report([row("a"), row("b", { wanted: "stopped" }), row("c", { wanted: "removed" })]);
  const { helperSha256, imageId, manifestSha256 } = BUILD;
  expect(found).toEqual({
    controller: { ...(await readRevision()), pin: HELPER_PIN },
    builds: [{ kind: "docker", helperSha256, imageId, manifestSha256 }],
    sandboxes: [
      { ...PROBE, sandbox: "a" },
      { ...PROBE, sandbox: "b" },
    ],
    isWhole: true,
  });
});

test("a set is whole when nothing is against a sandbox, and the bridge of each that runs was asked", async () => {
  expect((await report([])).isWhole).toBe(true);
  expect((await report([row("a")], { reasons: ["x"] })).isWhole).toBe(false);
  expect((await report([row("a")], { report: null })).isWhole).toBe(false);
  expect((await report([row("a")], { report: null, place: "stopped" })).isWhole).toBe(true);
});

test("a build that is not there is told with its problem, and a kind that is not offered with its sandbox", async () => {
  const drivers = new Map([
    ["docker" as const, { pinned: () => Promise.reject(new HoldfastError("IMAGE_MISSING", "no image")) }],
  ]);
  const found = await deploymentOf({
    store: { sandboxes: () => [row("p", { kind: "process" })] },
    drivers,
    probe: () => Promise.reject(new Error("it is not asked")),
  });
  expect(found.builds).toEqual([{ kind: "docker", problem: "no image" }]);
  expect(found.sandboxes).toMatchObject([
    { sandbox: "p", reasons: ["this host offers no process sandboxes now"] },
  ]);
  expect(found.isWhole).toBe(false);
});

test("a host reports over its own links, and beats with what its bridges answer until it closes", async () => {
  const fake = await startFakeHost();
  fake.member();
  await fake.host.startSandbox("box");
  expect(await fake.host.deployment()).toMatchObject({
    isWhole: true,
    sandboxes: [{ sandbox: "box", place: "running" }],
  });
  fake.bridge().helperSha256 = DIGEST_B;
  expect(await fake.host.deployment()).toMatchObject({ isWhole: false });
  const { directory, host } = fake;
  const heartbeat = await until("the heartbeat", () => readHeartbeat(directory));
  expect(heartbeat).toMatchObject({ fence: host.store.fence, pid: process.pid });
  await host.close();
  expect(readHeartbeat(directory)).toBeNull();
});
