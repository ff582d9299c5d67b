/**
 * `holdfast doctor --deployment`: is what runs here one set? Revision of controller, helper and image, what each running bridge
 * says about itself over its link, and how fresh its heartbeat is. Works beside a controller that holds the store, and says what
 * can't be known then. A model call that works is no substitute, and the output says so.
 */
import { asHoldfastError } from "../../protocol/errors.ts";
import { type DeploymentReport, deploymentOf } from "../deployment.ts";
import { FRESH_MS, type Heartbeat, readHeartbeat } from "../heartbeat.ts";
import { probeSandbox } from "../sandbox-probe.ts";
import type { Setup } from "../setup.ts";
import type { Check } from "./doctor.ts";
import type { Environment } from "./environment.ts";
import { commandSetup, NO_MODEL, openCommandHost } from "./open.ts";
import { type Output, seconds } from "./output.ts";
import { readStore } from "./read-store.ts";

export const NO_SUBSTITUTE =
  "A model call that works is no substitute for this check: an older controller, image or bridge may have served it.";

/** Which controller has the store, as far as it can be known. */
export type Owner =
  | { kind: "nobody"; why: string }
  | { kind: "other"; heartbeat: Heartbeat | null; storeFence: number; atMs: number };

export interface Deployment {
  report: DeploymentReport;
  owner: Owner;
}

/** Looks at everything; starts, stops and takes over nothing. Throws what keeps the store from being read. */
export async function lookAtDeployment(environment: Environment, output: Output): Promise<Deployment> {
  if (readStore(environment, () => true) === null) {
    return {
      report: await lookBeside(environment, []),
      owner: { kind: "nobody", why: "there is no store yet" },
    };
  }
  try {
    // Whoever hangs is told of, and not taken over for it.
    const opened = await openCommandHost({
      environment: { ...environment, takeOver: false },
      output,
      relay: NO_MODEL,
    });
    try {
      const why = "no other controller holds the store, this one asked the bridges itself";
      return { report: await opened.host.deployment(), owner: { kind: "nobody", why } };
    } finally {
      await opened.close();
    }
  } catch (error) {
    if (asHoldfastError(error).code !== "STORE_OWNED") throw error;
  }
  const known = readStore(environment, (store) => ({
    id: store.id,
    rows: store.sandboxes(),
    fence: store.fence,
  }));
  const heartbeat = readHeartbeat(environment.storeDirectory);
  const report = await lookBeside(environment, known?.rows ?? [], known?.id);
  return {
    report,
    owner: { kind: "other", heartbeat, storeFence: known?.fence ?? 0, atMs: Date.now() },
  };
}

/** The measuring alone: links are the other controller's. */
async function lookBeside(
  environment: Environment,
  rows: Parameters<typeof probeSandbox>[0]["row"][],
  storeId = "",
): Promise<DeploymentReport> {
  const setup: Setup = commandSetup(environment);
  const drivers = new Map(setup.drivers.map((driver) => [driver.kind, driver]));
  try {
    return await deploymentOf({
      store: { sandboxes: () => rows },
      drivers,
      async probe(row) {
        const { id: sandboxId, generation, directory } = row;
        const driver = drivers.get(row.kind);
        if (driver === undefined) throw new TypeError(`no driver for ${row.kind}`);
        return probeSandbox({ row, driver, spec: { storeId, sandboxId, generation, directory }, link: null });
      },
    });
  } finally {
    setup.close();
  }
}

/** Who owns the store, and whether that is a controller of this very revision that is alive. */
export function ownerCheck(owner: Owner, { controller }: DeploymentReport): Check {
  const name = "owner";
  if (owner.kind === "nobody") return { name, state: "ok", detail: owner.why, fix: "" };
  const { heartbeat, storeFence, atMs } = owner;
  if (heartbeat === null || heartbeat.fence !== storeFence) {
    const detail =
      "a controller holds the store and says nothing of itself: it is of an earlier version, or has just begun";
    return {
      name,
      state: "failed",
      detail,
      fix: "ask again in some seconds; then restart it with this version",
    };
  }
  const ageMs = atMs - heartbeat.beatAt;
  const who = `the controller that holds the store (process ${heartbeat.pid})`;
  const age = ageMs < 0 ? "of the future: the clock was set back" : `${seconds(ageMs)} old`;
  if (ageMs < 0 || ageMs > FRESH_MS) {
    const detail = `${who} hangs: its last heartbeat is ${age}`;
    return { name, state: "failed", detail, fix: "look at it; end it, or take the store with --take-over" };
  }
  if (heartbeat.revision !== controller.sha256) {
    const detail = `${who} runs revision ${short(heartbeat.revision)} (${heartbeat.version}), these files are ${short(controller.sha256)} (${controller.version})`;
    return { name, state: "failed", detail, fix: "restart that controller; its turns go on meanwhile" };
  }
  return { name, state: "ok", detail: `${who} runs this revision, its heartbeat is ${age}`, fix: "" };
}

/** Of each sandbox: is it of this host's build, and was its running bridge asked? */
export function sandboxDeploymentChecks(
  { report, owner }: Deployment,
  command: (words: string) => string,
): Check[] {
  const name = "sandbox";
  if (report.sandboxes.length === 0) {
    const detail = "there is none, so no bridge was asked; each is attested before its first turn";
    return [{ name, state: "ok", detail, fix: "" }];
  }
  return report.sandboxes.map((probe): Check => {
    const { sandbox, place, notAsked } = probe;
    const told = owner.kind === "other" ? toldBy(owner, sandbox) : null;
    const reasons = [...new Set([...probe.reasons, ...(told?.reasons ?? [])])];
    if (reasons.length > 0) {
      const detail = `${sandbox} (${place}) is not of this host's set: ${reasons.join("; ")}`;
      const fix = `bring back the build that made it, or ${command(`sandbox rm ${sandbox}`)} and start anew`;
      return { name, state: "failed", detail, fix };
    }
    const answer = probe.report ?? told?.report ?? null;
    if (answer === null) {
      if (place !== "running")
        return {
          name,
          state: "ok",
          detail: `${sandbox} is ${place} and of this build; ${notAsked}`,
          fix: "",
        };
      const detail = `${sandbox} runs and is of this build; its bridge was not asked: ${notAsked}, which is on no link to it`;
      return {
        name,
        state: "warning",
        detail,
        fix: "stop that controller and ask again, or ask host.deployment() in it",
      };
    }
    const heartbeatMs = probe.heartbeatMs ?? told?.heartbeatMs ?? null;
    const by =
      told === null
        ? "asked over its link"
        : `asked by the controller that holds the store, ${seconds(told.ageMs)} ago`;
    const heartbeat =
      heartbeatMs === null ? "no heartbeat" : `heartbeat ${seconds(heartbeatMs + (told?.ageMs ?? 0))} ago`;
    const detail = `${sandbox} runs bridge ${short(answer.helperSha256)} (${answer.pin}), life ${answer.epoch}, ${by}: right; ${heartbeat}`;
    return { name, state: "ok", detail, fix: "" };
  });
}

/** What the other controller was answered by the bridge, while its heartbeat is worth something. */
function toldBy({ heartbeat, storeFence, atMs }: Extract<Owner, { kind: "other" }>, sandbox: string) {
  if (heartbeat === null || heartbeat.fence !== storeFence) return null;
  const ageMs = atMs - heartbeat.beatAt;
  const found = heartbeat.bridges.find((bridge) => bridge.sandbox === sandbox);
  return found === undefined || ageMs < 0 || ageMs > FRESH_MS ? null : { ...found, ageMs };
}

/** The helper of each build against the one that these sources make. */
export function helperChecks(
  { builds }: DeploymentReport,
  fromSources: { sha256: string } | { problem: string },
  fix: string,
): Check[] {
  const name = "helper";
  const made = builds.flatMap((build) => ("problem" in build ? [] : [build]));
  if (made.length === 0) {
    const problems = builds.flatMap((build) => ("problem" in build ? [build.problem] : []));
    return [{ name, state: "failed", detail: problems.join("; ") || "nothing was built here", fix }];
  }
  return made.map(({ kind, helperSha256 }): Check => {
    const what = `${kind}: bridge ${short(helperSha256)}`;
    if ("problem" in fromSources) {
      const detail = `${what}; whether it is this controller's can't be known: ${fromSources.problem}`;
      return { name, state: "warning", detail, fix: "compare it with the release's own digest" };
    }
    if (helperSha256 === fromSources.sha256)
      return { name, state: "ok", detail: `${what}, which is what these sources make`, fix: "" };
    const detail = `${what} was built from other sources than these, which make ${short(fromSources.sha256)}: host and image are no set`;
    return { name, state: "failed", detail, fix };
  });
}

export function short(sha256: string): string {
  return sha256.slice(0, 12);
}
