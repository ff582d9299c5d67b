import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Check } from "../../../controller/cli/doctor.ts";
import {
  type Deployment,
  helperChecks,
  NO_SUBSTITUTE,
  type Owner,
  ownerCheck,
  sandboxDeploymentChecks,
} from "../../../controller/cli/doctor-deployment.ts";
import { builtHelper } from "../../../controller/cli/source-revision.ts";
import { type DeploymentReport, deploymentOf } from "../../../controller/deployment.ts";
import { type Heartbeat, readHeartbeat } from "../../../controller/heartbeat.ts";
import type { SandboxProbe } from "../../../controller/sandbox-probe.ts";
import { HELPER_PIN } from "../../../protocol/pin.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { startEngineStandIn } from "../../support/engine.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { startFakeHost } from "../../support/fake-host.ts";
import { AT, DIGEST_A, DIGEST_B } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { until } from "../../support/until.ts";

const MANIFEST = "{}";
const MANIFEST_SHA256 = createHash("sha256").update(MANIFEST).digest("hex");
const IMAGE = "sha256:0123456789abcdef";
const command = (words: string) => `holdfast ${words}`;

const REPORT: DeploymentReport = {
  controller: { version: "0.1.0", sha256: DIGEST_A, of: "sources", pin: HELPER_PIN },
  builds: [{ kind: "docker", helperSha256: DIGEST_A, imageId: IMAGE, manifestSha256: DIGEST_B }],
  sandboxes: [],
  isWhole: true,
};
const HEARTBEAT: Heartbeat = {
  version: "0.1.0",
  revision: DIGEST_A,
  pid: 4711,
  fence: 9,
  beganAt: AT - 60_000,
  beatAt: AT - 2000,
  bridges: [],
};
const PROBE: SandboxProbe = {
  sandbox: "box",
  kind: "docker",
  place: "running",
  reasons: [],
  report: { pin: HELPER_PIN, helperSha256: DIGEST_A, epoch: 3 },
  heartbeatMs: 200,
  notAsked: "",
};
const NOBODY: Owner = { kind: "nobody", why: "nobody" };

function other(
  changes: Partial<Heartbeat> | null = {},
  more: { storeFence?: number; atMs?: number } = {},
): Owner {
  const heartbeat = changes === null ? null : { ...HEARTBEAT, ...changes };
  return { kind: "other", heartbeat, storeFence: 9, atMs: AT, ...more };
}

// --- which controller

test.for([
  [
    "of this revision, and alive",
    other(),
    "ok",
    /process 4711.* runs this revision, its heartbeat is 2\.0 s old/,
  ],
  [
    "of another revision",
    other({ revision: DIGEST_B, version: "0.0.9" }),
    "failed",
    /runs revision \w{12} \(0\.0\.9\), these files are/,
  ],
  ["that hangs", other({ beatAt: AT - 21_000 }), "failed", /hangs: its last heartbeat is 21\.0 s old/],
  [
    "with a heartbeat of the future",
    other({ beatAt: AT + 5000 }),
    "failed",
    /hangs: .*the clock was set back/,
  ],
  [
    "that says nothing of itself",
    other(null),
    "failed",
    /says nothing of itself: it is of an earlier version/,
  ],
  ["whose heartbeat is its predecessor's", other({ fence: 8 }), "failed", /says nothing of itself/],
] as Array<[string, Owner, string, RegExp]>)("a controller %s", ([, owner, state, detail]) => {
  const check = ownerCheck(owner, REPORT);
  expect(check).toMatchObject({ name: "owner", state, detail: expect.stringMatching(detail) as string });
  expect(check.fix === "").toBe(state === "ok");
});

test("without another controller that is said", () => {
  expect(ownerCheck(NOBODY, REPORT)).toEqual({ name: "owner", state: "ok", detail: "nobody", fix: "" });
});

// --- the helper of the builds

test("a build is compared with the bridge that these sources make", () => {
  const process_ = { kind: "process" as const, helperSha256: DIGEST_B, imageId: null, manifestSha256: null };
  const checks = helperChecks(
    { ...REPORT, builds: [...REPORT.builds, process_] },
    { sha256: DIGEST_A },
    "fix it",
  );
  expect(checks).toMatchObject([
    {
      state: "ok",
      detail: expect.stringMatching(/^docker: bridge \w{12}, which is what these sources make$/) as string,
      fix: "",
    },
    {
      state: "failed",
      detail: expect.stringMatching(/^process: .*host and image are no set$/) as string,
      fix: "fix it",
    },
  ]);
  expect(helperChecks(REPORT, { problem: "no sources" }, "fix it")).toMatchObject([
    { state: "warning", detail: expect.stringMatching(/can't be known: no sources$/) as string },
  ]);
  const none = { ...REPORT, builds: [{ kind: "docker" as const, problem: "no image" }] };
  expect(helperChecks(none, { sha256: DIGEST_A }, "fix it")).toEqual([
    { name: "helper", state: "failed", detail: "no image", fix: "fix it" },
  ]);
});

// --- the sandboxes

function sandboxes(probes: Array<Partial<SandboxProbe>>, owner: Owner = NOBODY): Check[] {
  const report = { ...REPORT, sandboxes: probes.map((probe) => ({ ...PROBE, ...probe })) };
  const deployment: Deployment = { report, owner };
  return sandboxDeploymentChecks(deployment, command);
}

test("no sandbox: nobody was asked, which is said", () => {
  expect(sandboxes([])).toMatchObject([
    { state: "ok", detail: expect.stringMatching(/no bridge was asked/) as string },
  ]);
});

test("a running bridge that answered well, with its digest and the age of its heartbeat", () => {
  expect(sandboxes([{}])).toMatchObject([
    {
      state: "ok",
      detail: expect.stringMatching(
        /^box runs bridge \w{12} .*life 3, asked over its link: right; heartbeat 0\.2 s ago$/,
      ) as string,
    },
  ]);
});

test("every reason fails, with the next step; one that is stopped and of this build does not", () => {
  const [failed] = sandboxes([{ place: "stopped", reasons: ["a", "b"], report: null }]);
  expect(failed).toMatchObject({
    state: "failed",
    detail: "box (stopped) is not of this host's set: a; b",
    fix: expect.stringContaining("holdfast sandbox rm box") as string,
  });
  expect(
    sandboxes([{ place: "stopped", report: null, heartbeatMs: null, notAsked: "it does not run" }]),
  ).toMatchObject([{ state: "ok", detail: "box is stopped and of this build; it does not run" }]);
});

test("beside another controller: its own question counts while it is fresh, and without one nothing is claimed", () => {
  const beside = {
    report: null,
    heartbeatMs: null,
    notAsked: "its link belongs to the controller that holds the store",
  };
  const said = { sandbox: "box", reasons: [], report: PROBE.report, heartbeatMs: 300 };
  const of = (owner: Owner) => sandboxes([beside], owner)[0];
  expect(of(other({ bridges: [said] }))).toMatchObject({
    state: "ok",
    detail: expect.stringMatching(
      /asked by the controller that holds the store, 2\.0 s ago: right; heartbeat 2\.3 s ago$/,
    ) as string,
  });
  expect(
    of(other({ bridges: [{ ...said, reasons: ["the answer to the challenge is wrong"] }] })),
  ).toMatchObject({
    state: "failed",
    detail: expect.stringMatching(/the answer to the challenge is wrong$/) as string,
  });
  for (const owner of [
    other(),
    other({ bridges: [{ ...said, sandbox: "another" }] }),
    other({ bridges: [said], beatAt: AT - 30_000 }),
    other({ bridges: [said], fence: 8 }),
  ])
    expect(of(owner)).toMatchObject({
      state: "warning",
      detail: expect.stringMatching(/its bridge was not asked/) as string,
    });
});

// --- the command

/** The bridge that this checkout makes; the build takes a second, and every run of the command makes it anew. */
let helper = "";
beforeAll(async () => {
  const made = await builtHelper({
    root: join(import.meta.dirname, "..", "..", ".."),
    node: process.execPath,
  });
  helper = "sha256" in made ? made.sha256 : "";
});

function dist(sha256: string): string {
  const directory = temporaryDirectory();
  const manifest = {
    files: [{ path: "/opt/holdfast/bridge.cjs", sha256 }],
    clis: [{ cli: "opencode", version: "1.18.33", command: ["/opt/oc"] }],
  };
  const record = { imageId: IMAGE, manifestSha256: MANIFEST_SHA256, manifest };
  writeFileSync(join(directory, "image-manifest.json"), JSON.stringify(record));
  return directory;
}

async function deployment(
  env: Record<string, string>,
  { store = temporaryDirectory(), json = true } = {},
): Promise<{ code: number | null; stdout: string; checks: Check[]; note: string }> {
  const words = ["doctor", "--deployment", ...(json ? ["--json"] : [])];
  const { code, stdout, stderr } = await cli(words, { store, env, limitMs: 20_000 });
  expect(stderr).toBe("");
  const { checks, note } = json
    ? (JSON.parse(stdout) as { checks: Check[]; note: string })
    : { checks: [], note: "" };
  return { code, stdout, checks, note };
}

const state = (checks: Check[], name: string) =>
  checks.filter((check) => check.name === name).map((check) => check.state);

test("a whole set without a sandbox: revision, helper, image and pin fit, and the note stands below", async () => {
  const engine = await startEngineStandIn({ images: { [IMAGE]: { "dev.holdfast.pin": HELPER_PIN } } });
  const env = { DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(helper) };
  const { code, stdout } = await deployment(env, { json: false });
  expect(stdout).toMatch(
    /^ok {2}controller holdfast 0\.1\.0, revision [0-9a-f]{12} of its sources(, git [0-9a-f]{12}( with changes)?)?, needs /m,
  );
  expect(stdout).toMatch(/^ok {2}owner {6}there is no store yet$/m);
  expect(stdout).toMatch(/^ok {2}helper {5}docker: bridge [0-9a-f]{12}, which is what these sources make$/m);
  expect(stdout).toMatch(/^ok {2}pin {8}http-agent-live-bridge=4$/m);
  expect(stdout.trimEnd().endsWith(NO_SUBSTITUTE)).toBe(true);
  expect(code).toBe(0);
});

test("new host and old image: other sources' bridge, and an older pin, each fail with what to do", async () => {
  const engine = await startEngineStandIn({
    images: { [IMAGE]: { "dev.holdfast.pin": "http-agent-live-bridge=3" } },
  });
  const { code, checks, note } = await deployment({
    DOCKER_HOST: `unix://${engine}`,
    HOLDFAST_DIST: dist(DIGEST_A),
  });
  expect(code).toBe(1);
  expect(checks.filter((check) => check.state === "failed").map(({ name, fix }) => [name, fix])).toEqual([
    ["helper", "holdfast image build"],
    ["pin", "holdfast image build"],
  ]);
  expect(note).toBe(NO_SUBSTITUTE);
});

test("old host and new image: a pin of a later version fails", async () => {
  const engine = await startEngineStandIn({
    images: { [IMAGE]: { "dev.holdfast.pin": "http-agent-live-bridge=5" } },
  });
  const { code, checks } = await deployment({ DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(helper) });
  expect(code).toBe(1);
  expect(state(checks, "pin")).toEqual(["failed"]);
});

test("nothing was built: said with what to do, and no engine is wanted for it", async () => {
  const { code, checks } = await deployment({
    DOCKER_HOST: DEAD_ENGINE,
    HOLDFAST_DIST: temporaryDirectory(),
  });
  expect(code).toBe(1);
  expect(checks.map(({ name }) => name)).toEqual(["controller", "owner", "helper", "sandbox"]);
  expect(state(checks, "helper")).toEqual(["failed"]);
});

test("beside a controller that holds the store it looks on, and takes nothing from it", async () => {
  // Its clock stands still: after its first heartbeat there is only what the test says in its place.
  const { directory, host } = await startFakeHost({ clock: new FakeClock(Date.now()) });
  const path = join(directory, "controller.json");
  const heartbeat = await until("the heartbeat", () => readHeartbeat(directory));
  const says = (changes: Partial<Heartbeat>) =>
    writeFileSync(path, JSON.stringify({ ...heartbeat, beatAt: Date.now(), ...changes }));
  const engine = await startEngineStandIn({ images: { [IMAGE]: { "dev.holdfast.pin": HELPER_PIN } } });
  const env = { DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(helper) };
  says({});
  const { checks, code } = await deployment(env, { store: directory });
  expect(state(checks, "owner")).toEqual(["ok"]);
  expect(code).toBe(0);
  host.createSandbox({ kind: "docker", id: "still-mine" });
  // One of another revision: as if the host had been upgraded and its controller not been restarted.
  says({ revision: DIGEST_B });
  const mixed = await deployment(env, { store: directory });
  expect(mixed.checks.find(({ name }) => name === "owner")).toMatchObject({
    state: "failed",
    fix: expect.stringContaining("restart that controller") as string,
  });
  expect(mixed.code).toBe(1);
});

test("a store that nobody holds is opened and let go of again", async () => {
  const fake = await startFakeHost();
  await fake.host.close();
  const engine = await startEngineStandIn({ images: { [IMAGE]: { "dev.holdfast.pin": HELPER_PIN } } });
  const env = { DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(helper) };
  for (let times = 0; times < 2; times += 1) {
    const { checks, code } = await deployment(env, { store: fake.directory });
    expect(checks.find(({ name }) => name === "owner")?.detail).toContain(
      "no other controller holds the store",
    );
    expect(code).toBe(0);
  }
  await fake.open().then((host) => host.close());
});

test("the report that is judged is the library's own", async () => {
  const report = await deploymentOf({
    store: { sandboxes: () => [] },
    drivers: new Map(),
    probe: async () => PROBE,
  });
  expect(helperChecks(report, { sha256: helper }, "fix it")).toEqual([
    { name: "helper", state: "failed", detail: "nothing was built here", fix: "fix it" },
  ]);
});
