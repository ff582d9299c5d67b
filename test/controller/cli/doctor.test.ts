import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Check, pinCheck } from "../../../controller/cli/doctor.ts";
import { HELPER_PIN } from "../../../protocol/pin.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { startEngineStandIn } from "../../support/engine.ts";
import { DIGEST_A } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

function dist(record?: unknown): string {
  const directory = temporaryDirectory();
  if (record !== undefined) writeFileSync(join(directory, "image-manifest.json"), JSON.stringify(record));
  return directory;
}

const RECORD = {
  imageId: "sha256:0123456789abcdef",
  manifestSha256: DIGEST_A,
  manifest: {
    files: [{ path: "/opt/holdfast/bridge.cjs", sha256: DIGEST_A }],
    clis: [{ cli: "opencode", version: "1.18.33", command: ["/opt/oc"] }],
  },
};

async function doctor(env: Record<string, string>): Promise<{ code: number | null; checks: Check[] }> {
  const { code, stdout, stderr } = await cli(["doctor", "--json"], { store: temporaryDirectory(), env });
  expect(stderr).toBe("");
  return { code, checks: JSON.parse(stdout) as Check[] };
}

const found = (checks: Check[], name: string) => checks.find((check) => check.name === name);

test("an engine, an image and a pin that are right are ok, and the exit code is 0", async () => {
  const engine = await startEngineStandIn({
    images: { [RECORD.imageId]: { "dev.holdfast.pin": HELPER_PIN } },
  });
  const { code, checks } = await doctor({ DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(RECORD) });
  expect(checks.filter(({ state }) => state === "failed")).toEqual([]);
  expect(code).toBe(0);
  expect(found(checks, "engine")?.detail).toBe("answers, version 20.10.24");
  expect(found(checks, "image")?.detail).toBe("sha256:0123456789ab with opencode 1.18.33");
  expect(found(checks, "pin")?.detail).toBe(HELPER_PIN);
});

test("a dead engine fails with what to do; the store is looked at all the same", async () => {
  const { code, checks } = await doctor({ DOCKER_HOST: DEAD_ENGINE, HOLDFAST_DIST: dist() });
  expect(code).toBe(1);
  expect(found(checks, "engine")).toMatchObject({
    state: "failed",
    detail: "no container engine answers at /nonexistent/engine.sock",
    fix: expect.stringContaining("npm run engine") as string,
  });
  expect(found(checks, "image")).toBeUndefined();
  expect(found(checks, "store")?.state).toBe("ok");
});

test("what process sandboxes are made of is named, and nothing is said where it was not made", async () => {
  const directory = dist();
  const bridge = join(directory, "bridge.cjs");
  const clis = [
    { cli: "opencode", version: "1.18.33", command: ["/opt/oc"], isChosen: true },
    { cli: "claude", version: "2.1.332", command: ["/opt/c"], isChosen: true },
    { cli: "claude", version: "2.1.220", command: ["/opt/c2"], isChosen: false },
  ];
  const bundle = { node: process.execPath, bridge, piExtension: bridge, clis };
  const env = { DOCKER_HOST: DEAD_ENGINE, HOLDFAST_DIST: directory };
  expect(found((await doctor(env)).checks, "bundle")).toBeUndefined();
  writeFileSync(join(directory, "bundle.json"), JSON.stringify(bundle));
  expect(found((await doctor(env)).checks, "bundle")).toMatchObject({
    state: "warning",
    fix: "npm run image -- --bundle-only",
  });
  writeFileSync(bridge, "");
  expect(found((await doctor(env)).checks, "bundle")).toMatchObject({
    state: "ok",
    detail: "process sandboxes with opencode 1.18.33, claude 2.1.332",
  });
});

test.for([
  ["no record", undefined, "no sandbox image was built here"],
  ["a record of something else", { imageId: 1 }, "the record of the image build can't be read"],
  ["an image that the engine does not have", RECORD, "the built image is not in this engine"],
] as Array<[string, unknown, string]>)(
  "%s of the image fails and says how to build it",
  async ([, record, detail]) => {
    const engine = await startEngineStandIn({ images: {} });
    const { code, checks } = await doctor({ DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(record) });
    expect(code).toBe(1);
    expect(found(checks, "image")).toMatchObject({ state: "failed", detail, fix: "holdfast image build" });
  },
);

test("every label that is not the pin fails, and says what the image says", () => {
  for (const label of [
    null,
    "",
    "http-agent-live-bridge=3",
    "http-agent-live-bridge=5",
    `${HELPER_PIN},${HELPER_PIN}`,
  ]) {
    expect(pinCheck(label, "fix")).toMatchObject({ state: "failed", fix: "fix" });
  }
  expect(pinCheck("http-agent-live-bridge=3", "").detail).toContain(
    "the image says http-agent-live-bridge=3",
  );
  expect(pinCheck(null, "").detail).toContain("the image says nothing");
});

test("a wrong label on the image reaches the user, without its control characters", async () => {
  const label = "http-agent-live-bridge=3\u001b[2J\nok  pin";
  const engine = await startEngineStandIn({ images: { [RECORD.imageId]: { "dev.holdfast.pin": label } } });
  const { code, stdout } = await cli(["doctor"], {
    store: temporaryDirectory(),
    env: { DOCKER_HOST: `unix://${engine}`, HOLDFAST_DIST: dist(RECORD) },
  });
  expect(code).toBe(1);
  expect(stdout).toMatch(
    /^!! {2}pin +the image says http-agent-live-bridge=3\[2J ok {2}pin \(.+\), needed is .+$/m,
  );
  expect(stdout).toMatch(/^ +fix: holdfast image build$/m);
  expect(stdout).not.toContain("\u001b");
});
