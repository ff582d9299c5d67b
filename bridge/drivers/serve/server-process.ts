/**
 * Starts the CLI's server and waits until it really answers.
 *
 * The port opens up to 1.2 s before the server can answer, and a request made in that time is swallowed for ever: the
 * printed line is waited for, then health is asked with a socket and a limit of its own each time.
 */
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { HoldfastError } from "../../../protocol/errors.ts";
import { limited } from "../../limited.ts";
import { type NativeProcess, processesLeft, startProcess } from "../../process.ts";
import type { Slot } from "../../slots.ts";
import type { LaunchRequest } from "../driver.ts";
import { type ServeApi, serveApi } from "./api.ts";
import { launchEnvironment } from "./launch-plan.ts";
import { type LoopbackServer, loopbackServer } from "./loopback-http.ts";
import type { ServeTraits } from "./traits.ts";

/** Characters of stdout that may come before the ready line. Beyond: CLI_NOT_READY. */
const NOISE_CHARS = 64 * 1024;

/** Time for one health request, and how often it is tried. */
const HEALTH_MS = 1000;
const HEALTH_TRIES = 10;
const HEALTH_WAIT_MS = 100;

export interface ServerProcess {
  process: NativeProcess;
  http: LoopbackServer;
  api: ServeApi;
}

/** Throws CLI_NOT_READY, STOPPED or PROCESS_LEFT; the process has then been ended. */
export async function startServer(traits: ServeTraits, request: LaunchRequest): Promise<ServerProcess> {
  const { slot, clock, limits, log } = request;
  const password = randomBytes(24).toString("base64url");
  await putPackagesLock(traits, slot);
  const native = await startProcess({
    command: [...request.command, ...traits.args],
    slot,
    clock,
    generation: request.processGeneration,
    environment: launchEnvironment({
      traits,
      slot,
      launch: request.launch,
      modelUrl: request.modelUrl,
      modelKey: request.modelKey,
      password,
      path: process.env.PATH ?? "/usr/bin:/bin",
    }),
  });
  try {
    const port = await limited(
      {
        clock,
        limitMs: limits.readyMs,
        code: "CLI_NOT_READY",
        what: `${traits.cli} start`,
        signal: request.signal,
      },
      () => Promise.race([readyPort(native.stdout, traits.readyLine), earlyExit(native, traits.cli)]),
    ).catch((error: unknown) => {
      if (native.hasExited()) log.warn("the CLI ended before it was ready", { cli: traits.cli });
      throw error;
    });
    native.stdout.resume();
    const http = loopbackServer(port, traits.userName, password);
    const api = serveApi(http, limits.requestMs);
    const version = await askHealth(api, request);
    if (version !== request.cliVersion) {
      http.close();
      throw new HoldfastError(
        "CLI_NOT_READY",
        `${traits.cli} is ${version}, pinned is ${request.cliVersion}`,
      );
    }
    return { process: native, http, api };
  } catch (error) {
    const left = await native.stop(limits.stopMs, async () => undefined);
    if (left.length > 0)
      log.warn("processes left after a failed start", { error: processesLeft(left).message });
    throw error;
  }
}

/** Only where bridge and slot are one user: a container has no network to fetch from. What is there already stays. */
async function putPackagesLock({ packagesLock }: ServeTraits, slot: Slot): Promise<void> {
  if (packagesLock === null || slot.user !== null) return;
  const path = join(slot.config, packagesLock.path);
  try {
    await mkdir(join(dirname(path), "node_modules"), { recursive: true });
    await writeFile(path, packagesLock.text, { flag: "wx" });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EEXIST") return;
    throw new HoldfastError("CLI_NOT_READY", "the slot's configuration can't be written", { cause });
  }
}

/** The port of the printed line. Nothing else may be in it, so a stranger on a port is never taken for the server. */
function readyPort(stdout: Readable, line: RegExp): Promise<number> {
  stdout.setEncoding("utf8");
  let seen = "";
  return new Promise((resolve, reject) => {
    const onData = (text: string) => {
      seen += text;
      // Whole lines only: a chunk may end in the middle of the number, and a stranger would be handed the password.
      const lines = seen.slice(0, seen.lastIndexOf("\n") + 1);
      const port = Number(lines.match(line)?.[1] ?? "");
      if (port > 0) {
        stdout.off("data", onData);
        resolve(port);
      } else if (seen.length > NOISE_CHARS) {
        stdout.off("data", onData);
        reject(
          new HoldfastError("CLI_NOT_READY", `no ready line within ${NOISE_CHARS} characters of output`),
        );
      }
    };
    stdout.on("data", onData);
  });
}

async function earlyExit(native: NativeProcess, cli: string): Promise<never> {
  const exit = await native.exited;
  throw new HoldfastError(
    "CLI_NOT_READY",
    `${cli} ended before it was ready (code ${exit.code}, signal ${exit.signal})`,
  );
}

async function askHealth(api: ServeApi, { clock, signal }: LaunchRequest): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await api.health(HEALTH_MS);
    } catch (error) {
      if (signal.aborted) throw new HoldfastError("STOPPED", "the start was cancelled", { cause: error });
      if (tries >= HEALTH_TRIES) throw error;
    }
    await new Promise<void>((resolve) => clock.after(HEALTH_WAIT_MS, resolve));
  }
}
