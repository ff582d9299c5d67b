// Makes sure that a container engine answers: uses one that does, else installs and starts one on Debian or Ubuntu.
// Builds no image and removes nothing.
//   node scripts/engine.ts [--optional] [--json] [--stop]
// HOLDFAST_ENGINE_ROOT=<dir>: an engine of its own, all of whose things lie in that folder; --stop ends only such a one.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { runCommand } from "../sandbox-image/command.ts";
import {
  DEFAULT_ENGINE_SOCKET,
  engineJson,
  pingEngine,
  socketOfDockerHost,
} from "../sandbox-image/engine-http.ts";
import { withLock } from "../sandbox-image/lock.ts";
import { installEngine } from "./engine-install.ts";
import { engineLayout } from "./engine-layout.ts";
import { findProgram } from "./engine-program.ts";
import { startEngine } from "./engine-start.ts";
import { stopOwnEngine } from "./engine-stop.ts";

/** Longer than an install and a start together: whoever waits gets the other's engine. */
const LOCK_WAIT_MS = 600_000;

export interface EngineOptions {
  /** Only `unix://` is looked at. Undefined: the usual socket. */
  dockerHost?: string | undefined;
  /** A folder for an engine of its own. Undefined: the usual engine. */
  root?: string | undefined;
  /** Gets a line for each step that may take longer than two seconds. Default: nowhere. */
  report?: ((line: string) => void) | undefined;
}

export interface EngineReport {
  socketPath: string;
  /** As the environment variable DOCKER_HOST wants it. */
  dockerHost: string;
  isStartedNow: boolean;
  isInstalledNow: boolean;
  engineVersion: string;
  apiVersion: string;
  tookMs: number;
  /** Limits that this engine can't set on a container; the sandboxes want both memory and pids. */
  missingLimits: string[];
}

/** An engine that answers. Rejects with an Error whose message says what is missing. */
export async function ensureEngine(options: EngineOptions = {}): Promise<EngineReport> {
  const startedAt = performance.now();
  const report = options.report ?? (() => undefined);
  const root = options.root === undefined ? undefined : resolve(options.root);
  const layout = engineLayout(root);
  let isInstalledNow = false;
  let isStartedNow = false;
  let socketPath = await findAnswering(options.dockerHost, root, layout.apiSocket);
  if (socketPath === undefined) {
    const wait = {
      waitMs: LOCK_WAIT_MS,
      onWait: () => report("another process is starting the engine: waiting"),
    };
    socketPath = await withLock(`holdfast-engine:${root ?? ""}`, wait, async () => {
      const already = await findAnswering(options.dockerHost, root, layout.apiSocket);
      if (already !== undefined) return already;
      refuseWithoutRoot(layout.apiSocket);
      if (findProgram("dockerd") === undefined) {
        // Two installs for different roots would fight over one package database.
        await withLock("holdfast-engine-install", wait, async () => {
          if (findProgram("dockerd") !== undefined) return;
          await installEngine(report);
          isInstalledNow = true;
        });
      }
      if (root === undefined && (await startBySystemd(layout.apiSocket, report))) return layout.apiSocket;
      await startEngine(layout, report);
      isStartedNow = true;
      return layout.apiSocket;
    });
  }
  return {
    ...(await describe(socketPath)),
    isStartedNow,
    isInstalledNow,
    tookMs: Math.round(performance.now() - startedAt),
  };
}

async function findAnswering(
  dockerHost: string | undefined,
  root: string | undefined,
  apiSocket: string,
): Promise<string | undefined> {
  const named = dockerHost === undefined || dockerHost === "" ? undefined : socketOfDockerHost(dockerHost);
  const candidates = root === undefined ? [named, DEFAULT_ENGINE_SOCKET] : [apiSocket];
  for (const candidate of candidates) {
    if (candidate !== undefined && existsSync(candidate) && (await pingEngine(candidate))) return candidate;
  }
  return undefined;
}

function refuseWithoutRoot(apiSocket: string): void {
  if (process.platform !== "linux") {
    throw new Error(
      `no container engine answers, and one is started for you on Linux only (this is ${process.platform})`,
    );
  }
  if (process.getuid?.() === 0) return;
  const hint = existsSync(apiSocket)
    ? `you may not be allowed to open ${apiSocket}`
    : "starting one needs root";
  throw new Error(`no container engine answers: ${hint}`);
}

/** Where systemd runs, the engine is its business. False when it doesn't run or couldn't do it. */
async function startBySystemd(apiSocket: string, report: (line: string) => void): Promise<boolean> {
  if (!existsSync("/run/systemd/system")) return false;
  report("asking systemd to start docker");
  await runCommand("systemctl", ["start", "docker"], { timeoutMs: 60_000 });
  return pingEngine(apiSocket);
}

async function describe(
  socketPath: string,
): Promise<Omit<EngineReport, "isStartedNow" | "isInstalledNow" | "tookMs">> {
  const version = await engineJson<{ Version: string; ApiVersion: string }>({
    socketPath,
    method: "GET",
    path: "/version",
  });
  const limits = await engineJson<{ MemoryLimit?: boolean; PidsLimit?: boolean }>({
    socketPath,
    method: "GET",
    path: "/info",
  });
  const missingLimits = [
    ...(limits?.MemoryLimit === true ? [] : ["memory"]),
    ...(limits?.PidsLimit === true ? [] : ["pids"]),
  ];
  return {
    socketPath,
    dockerHost: `unix://${socketPath}`,
    engineVersion: version?.Version ?? "unknown",
    apiVersion: version?.ApiVersion ?? "unknown",
    missingLimits,
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { optional: { type: "boolean" }, json: { type: "boolean" }, stop: { type: "boolean" } },
  });
  const say = (line: string): void => void process.stderr.write(`engine: ${line}\n`);
  const root = process.env.HOLDFAST_ENGINE_ROOT || undefined;
  const dockerHost = process.env.DOCKER_HOST || undefined;
  if (values.stop === true) {
    if (root === undefined) throw new Error("--stop is for an engine of its own: set HOLDFAST_ENGINE_ROOT");
    await stopOwnEngine(resolve(root));
    return;
  }
  if (dockerHost !== undefined && socketOfDockerHost(dockerHost) === undefined) {
    say("DOCKER_HOST isn't a unix:// address: not used");
  }
  try {
    const engine = await ensureEngine({ root, dockerHost, report: say });
    if (engine.missingLimits.length > 0) say(`this engine can't limit ${engine.missingLimits.join(" and ")}`);
    if (values.json === true) process.stdout.write(`${JSON.stringify(engine)}\n`);
    else process.stdout.write(`DOCKER_HOST=${engine.dockerHost}\n`);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    say(values.optional === true ? `none, going on without: ${message}` : message);
    if (values.optional !== true) process.exitCode = 1;
  }
}

if (import.meta.main) await main();
