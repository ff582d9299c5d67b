/**
 * `holdfast doctor`: engine, image, pins, store; each with what to do about it. With `--deployment`: whether controller, builds
 * and sandboxes are one set.
 */
import { asHoldfastError } from "../../protocol/errors.ts";
import { HELPER_PIN, readPin } from "../../protocol/pin.ts";
import { engineJson } from "../sandboxes/engine-api.ts";
import type { Setup } from "../setup.ts";
import type { Command } from "./command.ts";
import { databaseChecks } from "./doctor-database.ts";
import {
  helperChecks,
  lookAtDeployment,
  NO_SUBSTITUTE,
  ownerCheck,
  sandboxDeploymentChecks,
  short,
} from "./doctor-deployment.ts";
import { sandboxChecks, storeChecks } from "./doctor-store.ts";
import type { Environment } from "./environment.ts";
import { commandSetup } from "./open.ts";
import { type Output, oneLine } from "./output.ts";
import { builtHelper, gitCommit } from "./source-revision.ts";

export interface Check {
  name: string;
  state: "ok" | "warning" | "failed";
  detail: string;
  /** What to do; "" when nothing. */
  fix: string;
}

export const doctor: Command = {
  name: "doctor",
  summary: "Checks engine, image, pins and store, and says how to mend what is wrong.",
  usage: `[--deployment] [--json]

--deployment looks whether what runs here is one set: the revision of controller, helper and image, what each running
bridge says about itself over its link, and how fresh its heartbeat is. No sandbox is started or stopped for it, and no
controller taken over. A model call that works is no substitute.
Exit code: 0 all of it is shown to fit, 1 something does not, 3 nothing is wrong and something can't be known from here.`,
  options: { deployment: { type: "boolean" } },
  words: { min: 0, max: 0 },
  async run({ values, environment, output }) {
    if (values.deployment === true) return runDeployment(environment, output);
    const checks = await runChecks(environment, output.command);
    if (output.isJson) output.json(checks);
    else showChecks(checks, output);
    return checks.some(({ state }) => state === "failed") ? 1 : 0;
  },
};

/** Nothing is wrong, and not everything is shown to be right. */
const NOT_KNOWN = 3;

async function runDeployment(environment: Environment, output: Output): Promise<number> {
  const fix = output.command("image build");
  const [deployment, git, helper] = await Promise.all([
    lookAtDeployment(environment, output),
    gitCommit(environment.root),
    builtHelper(environment),
  ]);
  const { report, owner } = deployment;
  const { version, sha256, of, pin } = report.controller;
  const where = git === null ? "" : `, git ${short(git.commit)}${git.isClean ? "" : " with changes"}`;
  const detail = `holdfast ${version}, revision ${short(sha256)} of its ${of}${where}, needs ${pin}`;
  const usesEngine =
    report.builds.some((build) => build.kind === "docker" && !("problem" in build)) ||
    report.sandboxes.some(({ kind }) => kind === "docker");
  const checks: Check[] = [
    { name: "controller", state: "ok", detail, fix: "" },
    ownerCheck(owner, report),
    ...helperChecks(report, helper, fix),
    ...(usesEngine ? await engineChecks(environment, output.command) : []),
    ...sandboxDeploymentChecks(deployment, output.command),
  ];
  if (output.isJson) output.json({ checks, ...report, owner, git, note: NO_SUBSTITUTE });
  else {
    showChecks(checks, output);
    output.line();
    output.line(NO_SUBSTITUTE);
  }
  if (checks.some(({ state }) => state === "failed")) return 1;
  return checks.some(({ state }) => state === "warning") ? NOT_KNOWN : 0;
}

function showChecks(checks: readonly Check[], output: Output): void {
  for (const { name, state, detail, fix } of checks) {
    output.line(`${MARKS[state]} ${name.padEnd(10)} ${oneLine(detail)}`);
    if (fix !== "") output.line(`${" ".repeat(14)}fix: ${fix}`);
  }
}

const MARKS = { ok: "ok ", warning: "?? ", failed: "!! " } as const;

/** @param command how the user types a command of ours */
async function runChecks(environment: Environment, command: (words: string) => string): Promise<Check[]> {
  return [
    nodeCheck(),
    ...(await engineChecks(environment, command)),
    ...(await bundleChecks(environment)),
    ...(environment.storeUrl === null
      ? await storeChecks(environment.storeDirectory)
      : databaseChecks(environment.storeUrl)),
    ...sandboxChecks(environment, command),
  ];
}

function nodeCheck(): Check {
  const major = Number(process.versions.node.split(".")[0]);
  return major >= 24
    ? { name: "node", state: "ok", detail: process.version, fix: "" }
    : {
        name: "node",
        state: "failed",
        detail: `${process.version}, needed is 24`,
        fix: "start holdfast through npm, which brings it",
      };
}

async function engineChecks(environment: Environment, command: (words: string) => string): Promise<Check[]> {
  const setup = commandSetup(environment);
  try {
    if (!(await setup.engine.ping())) {
      const hasBundle = setup.drivers.some(({ kind }) => kind === "process");
      const detail = `no container engine answers at ${environment.engineSocketPath}`;
      const fix = `npm run engine; or use --sandbox process${hasBundle ? "" : `, after ${command("image build --bundle-only")}`}`;
      return [{ name: "engine", state: "failed", detail, fix }];
    }
    const version = JSON.parse((await setup.engine.call("GET", "/version")).body.toString("utf8")) as {
      Version?: string;
    };
    const detail = `answers, version ${version.Version ?? "?"}`;
    return [
      { name: "engine", state: "ok", detail, fix: "" },
      ...(await imageChecks(setup, command("image build"))),
    ];
  } finally {
    setup.close();
  }
}

/** What process sandboxes are made of, where it was made: it is no fault to have containers alone. */
async function bundleChecks(environment: Environment): Promise<Check[]> {
  const setup = commandSetup(environment);
  setup.close();
  const driver = setup.drivers.find(({ kind }) => kind === "process");
  if (driver === undefined) return [];
  const check = await driver.pinned().then(
    ({ clis }) => ({ state: "ok" as const, detail: `process sandboxes with ${named(clis)}`, fix: "" }),
    (error: unknown) => ({
      state: "warning" as const,
      detail: asHoldfastError(error).message,
      fix: "npm run image -- --bundle-only",
    }),
  );
  return [{ name: "bundle", ...check }];
}

function named(clis: ReadonlyArray<{ cli: string; version: string }>): string {
  return clis.map(({ cli, version }) => `${cli} ${version}`).join(", ");
}

async function imageChecks(setup: Setup, fix: string): Promise<Check[]> {
  const driver = setup.drivers.find(({ kind }) => kind === "docker");
  try {
    const pinned = await driver?.pinned();
    const answer = await setup.engine.call("GET", `/images/${pinned?.imageId ?? ""}/json`);
    if (answer.status === 404)
      return [{ name: "image", state: "failed", detail: "the built image is not in this engine", fix }];
    const image = engineJson("inspect the image", answer) as {
      Config?: { Labels?: Record<string, string> | null };
    };
    const detail = `${pinned?.imageId?.slice(0, 19) ?? "?"} with ${named(pinned?.clis ?? [])}`;
    return [
      { name: "image", state: "ok", detail, fix: "" },
      pinCheck(image.Config?.Labels?.["dev.holdfast.pin"] ?? null, fix),
    ];
  } catch (error) {
    return [{ name: "image", state: "failed", detail: asHoldfastError(error).message, fix }];
  }
}

/** The label of the image against the pin of this version. */
export function pinCheck(label: string | null, fix: string): Check {
  if (label === HELPER_PIN) return { name: "pin", state: "ok", detail: HELPER_PIN, fix: "" };
  const detail = `the image says ${label ?? "nothing"} (${readPin(label).kind}), needed is ${HELPER_PIN}`;
  return { name: "pin", state: "failed", detail, fix };
}
