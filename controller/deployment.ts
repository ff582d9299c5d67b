/**
 * Whether what runs here is one set: controller, build and sandboxes. Gathers the facts and judges nothing but whether a set is
 * whole; how it is told, and with which next step, is the command line's.
 */
import { asHoldfastError } from "../protocol/errors.ts";
import { HELPER_PIN } from "../protocol/pin.ts";
import { type HeartbeatOptions, startHeartbeat } from "./heartbeat.ts";
import { type Revision, readRevision } from "./revision.ts";
import type { SandboxProbe } from "./sandbox-probe.ts";
import type { PinnedBuild, SandboxDriver } from "./sandboxes/sandbox.ts";
import type { SandboxKind, SandboxRow } from "./store/records.ts";

export interface DeploymentReport {
  /** Of the program that made this report. */
  controller: Revision & { pin: string };
  /** What this host makes sandboxes of, for each kind that it offers; the problem where there is none. */
  builds: Array<{ kind: SandboxKind } & (BuildRevision | { problem: string })>;
  /** Every sandbox that is not removed. */
  sandboxes: SandboxProbe[];
  /** No sandbox has a reason against it, and the bridge of each running one was asked. False says nothing of the builds. */
  isWhole: boolean;
}

type BuildRevision = Pick<PinnedBuild, "helperSha256" | "imageId" | "manifestSha256">;

export async function deploymentOf(options: {
  store: { sandboxes(): SandboxRow[] };
  drivers: ReadonlyMap<SandboxKind, Pick<SandboxDriver, "pinned">>;
  probe(row: SandboxRow): Promise<SandboxProbe>;
}): Promise<DeploymentReport> {
  const { store, drivers, probe } = options;
  const rows = store.sandboxes().filter(({ wanted }) => wanted !== "removed");
  const builds = [...drivers].map(async ([kind, driver]) => {
    try {
      const { helperSha256, imageId, manifestSha256 } = await driver.pinned();
      return { kind, helperSha256, imageId, manifestSha256 };
    } catch (error) {
      return { kind, problem: asHoldfastError(error).message };
    }
  });
  const sandboxes = await Promise.all(
    rows.map(async (row) => (drivers.has(row.kind) ? probe(row) : notOffered(row))),
  );
  return {
    controller: { ...(await readRevision()), pin: HELPER_PIN },
    builds: await Promise.all(builds),
    sandboxes,
    isWhole: sandboxes.every(
      ({ place, reasons, report }) => reasons.length === 0 && (place !== "running" || report !== null),
    ),
  };
}

/** What a host tells of its own set; and the heartbeat by which others know of it, until its close. */
export function createDeployment(host: {
  options: { directory: string };
  store: HeartbeatOptions["store"] & { sandboxes(): SandboxRow[] };
  drivers: ReadonlyMap<SandboxKind, Pick<SandboxDriver, "pinned">>;
  clock: HeartbeatOptions["clock"];
  live: HeartbeatOptions["live"];
  sandboxOf(id: string): { probe(): Promise<SandboxProbe> };
  onWarning: HeartbeatOptions["onWarning"];
}): { report(): Promise<DeploymentReport>; close(): void } {
  const { store, drivers, clock, live, onWarning } = host;
  const { directory } = host.options;
  return {
    report: () => deploymentOf({ store, drivers, probe: ({ id }) => host.sandboxOf(id).probe() }),
    close: startHeartbeat({ directory, store, clock, live, onWarning }),
  };
}

function notOffered({ id, kind }: SandboxRow): SandboxProbe {
  const reasons = [`this host offers no ${kind} sandboxes now`];
  return { sandbox: id, kind, place: "unknown", reasons, report: null, heartbeatMs: null, notAsked: "" };
}
