/** `holdfast doctor`: engine, image, pins, store; each with what to do about it. */
import { existsSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { asHoldfastError } from "../../protocol/errors.ts";
import { HELPER_PIN, readPin } from "../../protocol/pin.ts";
import { setUp } from "../setup.ts";
import { openDatabase } from "../store/sqlite.ts";
import type { Command } from "./command.ts";
import type { Environment } from "./environment.ts";
import { readStore } from "./sandbox.ts";

export interface Check {
  name: string;
  state: "ok" | "warning" | "failed";
  detail: string;
  /** What to do; "" when nothing. */
  fix: string;
}

/** Free space below which the store is in danger. */
const FREE_BYTES = 1024 ** 3;

export const doctor: Command = {
  name: "doctor",
  summary: "Checks engine, image, pins and store, and says how to mend what is wrong.",
  usage: "[--json]",
  options: {},
  words: { min: 0, max: 0 },
  async run({ environment, output }) {
    const checks = await runChecks(environment);
    if (output.isJson) output.json(checks);
    else {
      for (const { name, state, detail, fix } of checks) {
        output.line(
          `${MARKS[state]} ${name.padEnd(10)} ${detail}${fix === "" ? "" : `\n${" ".repeat(13)}fix: ${fix}`}`,
        );
      }
    }
    return checks.some(({ state }) => state === "failed") ? 1 : 0;
  },
};

const MARKS = { ok: "ok ", warning: "?? ", failed: "!! " } as const;

export async function runChecks(environment: Environment): Promise<Check[]> {
  return [nodeCheck(), ...(await engineChecks(environment)), ...(await storeChecks(environment))];
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

async function engineChecks(environment: Environment): Promise<Check[]> {
  const setup = setUp({
    distDirectory: environment.distDirectory,
    engineSocketPath: environment.engineSocketPath,
    path: environment.path,
  });
  try {
    if (!(await setup.engine.ping())) {
      return [
        {
          name: "engine",
          state: "failed",
          detail: "no container engine answers",
          fix: "npm run engine, or use --sandbox process",
        },
      ];
    }
    const version = JSON.parse((await setup.engine.call("GET", "/version")).body.toString("utf8")) as {
      Version?: string;
    };
    const engine: Check = {
      name: "engine",
      state: "ok",
      detail: `answers, version ${version.Version ?? "?"}`,
      fix: "",
    };
    return [engine, ...(await imageChecks(setup))];
  } finally {
    setup.close();
  }
}

async function imageChecks(setup: ReturnType<typeof setUp>): Promise<Check[]> {
  const fix = "holdfast image build";
  const driver = setup.drivers.find(({ kind }) => kind === "docker");
  try {
    const pinned = await driver?.pinned();
    const answer = await setup.engine.call("GET", `/images/${pinned?.imageId ?? ""}/json`);
    if (answer.status === 404)
      return [{ name: "image", state: "failed", detail: "the built image is not in this engine", fix }];
    const image = JSON.parse(answer.body.toString("utf8")) as {
      Config?: { Labels?: Record<string, string> | null };
    };
    const label = image.Config?.Labels?.["dev.holdfast.pin"] ?? null;
    const reading = readPin(label);
    const isPinned = label === HELPER_PIN;
    const clis = (pinned?.clis ?? []).map(({ cli, version }) => `${cli} ${version}`).join(", ");
    return [
      { name: "image", state: "ok", detail: `${pinned?.imageId?.slice(0, 19) ?? "?"} with ${clis}`, fix: "" },
      isPinned
        ? { name: "pin", state: "ok", detail: HELPER_PIN, fix: "" }
        : {
            name: "pin",
            state: "failed",
            detail: `the image says ${label ?? "nothing"} (${reading.kind}), needed is ${HELPER_PIN}`,
            fix,
          },
    ];
  } catch (error) {
    return [{ name: "image", state: "failed", detail: asHoldfastError(error).message, fix }];
  }
}

async function storeChecks(environment: Environment): Promise<Check[]> {
  const { storeDirectory } = environment;
  if (!existsSync(storeDirectory)) {
    return [{ name: "store", state: "ok", detail: `${storeDirectory} will be made`, fix: "" }];
  }
  const checks: Check[] = [];
  const isOpenToOthers = (statSync(storeDirectory).mode & 0o077) !== 0;
  if (isOpenToOthers) {
    checks.push({
      name: "store",
      state: "warning",
      detail: `${storeDirectory} can be read by others`,
      fix: `chmod 700 ${storeDirectory}`,
    });
  }
  const space = await statfs(storeDirectory);
  const freeBytes = space.bavail * space.bsize;
  if (freeBytes < FREE_BYTES) {
    checks.push({
      name: "disk",
      state: "failed",
      detail: `${Math.round(freeBytes / 1e6)} MB free at the store`,
      fix: "free some space; stop sandboxes",
    });
  }
  try {
    openDatabase({ directory: storeDirectory }).close();
    checks.push({
      name: "store",
      state: "ok",
      detail: `${storeDirectory} can be owned and written`,
      fix: "",
    });
  } catch (error) {
    const fault = asHoldfastError(error);
    const isOwned = fault.code === "STORE_OWNED";
    checks.push({
      name: "store",
      state: isOwned ? "ok" : "failed",
      detail: fault.message,
      fix: isOwned ? "" : fault.next,
    });
  }
  try {
    const unready = readStore(environment, (store) =>
      store.sandboxes().filter((row) => row.unready !== null && row.wanted !== "removed"),
    );
    for (const { id, unready: why } of unready ?? []) {
      checks.push({
        name: "sandbox",
        state: "failed",
        detail: `${id} is not ready: ${why}`,
        fix: `holdfast sandbox rm ${id}, or rebuild the image`,
      });
    }
  } catch (error) {
    checks.push({
      name: "store",
      state: "failed",
      detail: asHoldfastError(error).message,
      fix: "see docs/errors.md",
    });
  }
  return checks;
}
