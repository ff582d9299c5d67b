/** `holdfast doctor --deployment` over a real image and a real bridge in a container (F3, E7). */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Check } from "../../controller/cli/doctor.ts";
import { builtHelper } from "../../controller/cli/source-revision.ts";
import type { DeploymentReport } from "../../controller/deployment.ts";
import { readHeartbeat } from "../../controller/heartbeat.ts";
import { readRevision } from "../../controller/revision.ts";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { cli } from "../support/cli.ts";
import { createMember, startTestHost } from "../support/host.ts";
import { until } from "../support/until.ts";
import { fileOf, inspectContainer, putFiles } from "./engine.ts";
import { BRIDGE, ownDist, plain, replacing, withBridge } from "./variants.ts";

interface Seen extends DeploymentReport {
  code: number | null;
  checks: Check[];
  note: string;
}

async function deployment(store: string, distDirectory: string): Promise<Seen> {
  const { code, stdout } = await cli(["doctor", "--deployment", "--json"], {
    store,
    env: { HOLDFAST_DIST: distDirectory },
    limitMs: 60_000,
  });
  return { code, ...(JSON.parse(stdout) as Omit<Seen, "code">) };
}

const states = ({ checks }: Seen) => checks.map(({ name, state }) => `${name} ${state}`);
const detail = ({ checks }: Seen, name: string) => checks.find((check) => check.name === name)?.detail ?? "";

test("a real set, beside the controller that holds the store and after it; then under a newer build", async () => {
  const dist = await ownDist();
  const opened = await startTestHost({ distDirectory: dist });
  const { host, directory } = opened;
  const { sandbox } = createMember(host, "docker");
  await host.startSandbox(sandbox);
  const container = host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const startedAt = (await inspectContainer(container))?.State.StartedAt;
  const made = await builtHelper({ root: join(import.meta.dirname, "..", ".."), node: process.execPath });
  const helperSha256 = "sha256" in made ? made.sha256 : "";

  // The owner asks its bridge itself: its bytes, as the image has them and the sources make them.
  const own = await host.deployment();
  expect(own).toMatchObject({
    controller: { ...(await readRevision()), pin: HELPER_PIN },
    isWhole: true,
    sandboxes: [
      { sandbox, place: "running", reasons: [], report: { pin: HELPER_PIN, helperSha256, epoch: 1 } },
    ],
  });
  expect(own.sandboxes[0]?.heartbeatMs).toBeLessThan(2000);

  // From beside: measured there, and asked by the controller that holds the link.
  await until("a heartbeat with the bridge in it", () => readHeartbeat(directory)?.bridges.length === 1);
  const beside = await deployment(directory, dist);
  expect(states(beside)).toEqual([
    "controller ok",
    "owner ok",
    "helper ok",
    "engine ok",
    "image ok",
    "pin ok",
    "sandbox ok",
  ]);
  expect(detail(beside, "sandbox")).toMatch(
    /asked by the controller that holds the store, \d+\.\d s ago: right; heartbeat \d+\.\d s ago$/,
  );
  expect(beside.code).toBe(0);

  // Nobody holds the store: the check takes the link, and asks with a challenge of its own.
  await opened.reopen(async () => {
    const alone = await deployment(directory, dist);
    expect(detail(alone, "sandbox")).toMatch(/asked over its link: right; heartbeat \d+\.\d s ago$/);
    expect(alone.code).toBe(0);

    // New host and old sandbox: the host's build is another one by now, whatever the sandbox answers.
    const newer = await withBridge(replacing(/http-agent-live-bridge=4/, "http-agent-live-bridge=4\u200b"));
    const mixed = await deployment(directory, newer);
    expect(states(mixed)).toEqual(expect.arrayContaining(["helper failed", "sandbox failed"]));
    expect(detail(mixed, "sandbox")).toContain("the container's image is not the one that this host built");
    expect(detail(mixed, "sandbox")).toContain("the running helper reports other bytes than the pinned ones");
    expect(mixed).toMatchObject({ isWhole: false, code: 1 });
    expect(mixed.note).toContain("no substitute");
  });

  // It was looked at, and neither stopped nor started.
  const after = await inspectContainer(container);
  expect(after?.State).toMatchObject({ Running: true, StartedAt: startedAt });
});

test("a bridge whose file was exchanged under it is told by its measured bytes, stopped or not, and is left as it is", async () => {
  const { host } = await startTestHost();
  const { sandbox } = createMember(host, "docker");
  await host.startSandbox(sandbox);
  const container = host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const bytes = await fileOf(container, BRIDGE);
  await putFiles(container, [plain(BRIDGE, Buffer.concat([bytes, Buffer.from("\n")]))]);
  const reasons = expect.arrayContaining(["the helper's bytes differ from the pinned ones"]) as string[];
  // The one that runs is still the right one, and says so: what would be started next is not.
  expect((await host.deployment()).sandboxes).toMatchObject([
    { place: "running", reasons, report: { helperSha256: createHash("sha256").update(bytes).digest("hex") } },
  ]);
  expect((await inspectContainer(container))?.State.Running).toBe(true);
  await host.stopSandbox(sandbox);
  expect(await host.deployment()).toMatchObject({
    isWhole: false,
    sandboxes: [{ place: "stopped", reasons, report: null, notAsked: "it does not run" }],
  });
});
