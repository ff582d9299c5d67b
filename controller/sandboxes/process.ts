/**
 * Sandboxes as plain child processes, for machines without a container engine. It isolates nothing and says so: the
 * agent's tools run as the controller's own user, with its files and its network.
 *
 *   <directory>/            bridge.cjs and what belongs beside it (copies: an upgrade does not change a running one),
 *                           bridge.log, process.json
 *     state/ slots/ workspace/
 */

import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { closeSync, constants, openSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import * as z from "zod/mini";
import { DEFAULT_LIMITS, type DriverLimits } from "../../protocol/bridge-config.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { CliName } from "../../protocol/locator.ts";
import { checkSandboxDirectory } from "./directory.ts";
import type { SandboxDriver, SandboxSpec } from "./sandbox.ts";

export interface ProcessOptions {
  /** The bundled bridge. */
  bridgePath: string;
  /** Files that the bridge finds beside itself, such as Pi's extension. Its bytes name theirs, so they need no digest here. */
  besideBridge?: readonly string[];
  node: string;
  clis: ReadonlyArray<{ cli: string; version: string; command: readonly string[] }>;
  limits: Partial<DriverLimits>;
  /** What the bridge's process gets of our environment. */
  environment: Readonly<Record<string, string | undefined>>;
}

const Running = z.object({ containerId: z.string(), pid: z.nullable(z.number()), startTicks: z.string() });
const LOG_TAIL_CHARS = 8000;
const POLL_MS = 20;
/** The bridge ends its CLIs gracefully, then by signals, each within a limit: cut short, it would leave them behind. */
const REMOVE_GRACE_MS = 20_000;
/** From a SIGKILL to the process's end. */
const GONE_MS = 5000;

export function processSandboxes(options: ProcessOptions): SandboxDriver {
  const fileOf = (spec: SandboxSpec, name: string) => join(spec.directory, name);
  const beside = options.besideBridge ?? [];

  async function read(spec: SandboxSpec): Promise<z.infer<typeof Running> | null> {
    try {
      return Running.parse(JSON.parse(await readFile(fileOf(spec, "process.json"), "utf8")));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw new HoldfastError("STORE_ERROR", "the process sandbox's own record can't be read", {
        cause: error,
      });
    }
  }

  async function write(spec: SandboxSpec, running: z.infer<typeof Running>): Promise<void> {
    const temporary = fileOf(spec, `.process-${randomUUID()}`);
    await writeFile(temporary, JSON.stringify(running), { mode: 0o600 });
    await rename(temporary, fileOf(spec, "process.json"));
  }

  /** The bridge's process if it is the very one that was started: its number may have been given anew. */
  async function alive(spec: SandboxSpec): Promise<number | null> {
    const running = await read(spec);
    if (running?.pid == null) return null;
    return (await startTicks(running.pid)) === running.startTicks ? running.pid : null;
  }

  async function stop(spec: SandboxSpec, graceMs: number): Promise<void> {
    const pid = await alive(spec);
    if (pid === null) return;
    process.kill(pid, "SIGTERM");
    if (await goneWithin(spec, graceMs)) return;
    process.kill(pid, "SIGKILL");
    if (!(await goneWithin(spec, GONE_MS)))
      throw new HoldfastError("PROCESS_LEFT", `the bridge (${pid}) can't be ended`);
  }

  async function goneWithin(spec: SandboxSpec, limitMs: number): Promise<boolean> {
    const deadline = performance.now() + limitMs;
    for (;;) {
      if ((await alive(spec)) === null) return true;
      if (performance.now() >= deadline) return false;
      await new Promise<void>((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** CLIs that outlived a bridge which was killed: whatever runs with the sandbox's own folder in its environment. */
  async function endLeft(spec: SandboxSpec): Promise<void> {
    const deadline = performance.now() + GONE_MS;
    for (;;) {
      const left = await processesUnder(`${spec.directory}/slots/`);
      if (left.length === 0) return;
      if (performance.now() >= deadline)
        throw new HoldfastError("PROCESS_LEFT", `${left.length} processes of the sandbox can't be ended`);
      for (const pid of left) killIfThere(pid);
      await new Promise<void>((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  return {
    kind: "process",
    hasImage: false,
    async pinned() {
      const { clis } = options;
      const helperSha256 = await digestOf(options.bridgePath).catch((cause: unknown) => {
        throw new HoldfastError("IMAGE_MISSING", "no bridge was bundled here", { cause });
      });
      const environment = Object.keys(options.environment).sort();
      return { helperSha256, imageId: null, manifestSha256: null, clis, environment };
    },
    async bridgeConfig(spec) {
      return {
        storeId: spec.storeId,
        sandboxId: spec.sandboxId,
        isolation: "process",
        controllerSocket: fileOf(spec, "ctl.sock"),
        modelSocket: fileOf(spec, "model.sock"),
        tokenFile: fileOf(spec, "token"),
        stateDirectory: fileOf(spec, "state"),
        slotsDirectory: fileOf(spec, "slots"),
        workspace: fileOf(spec, "workspace"),
        users: null,
        clis: options.clis.map(({ cli, version, command }) => ({
          cli: CliName.parse(cli),
          version,
          command: [...command],
        })),
        limits: { ...DEFAULT_LIMITS, ...options.limits },
      };
    },
    async create(spec) {
      for (const name of ["state", "slots", "workspace"])
        await mkdir(fileOf(spec, name), { recursive: true, mode: 0o700 });
      // In the place of whatever is there: copied over, a link would lead elsewhere.
      for (const path of [options.bridgePath, ...beside]) {
        const target = fileOf(spec, path === options.bridgePath ? "bridge.cjs" : basename(path));
        await rm(target, { recursive: true, force: true });
        await copyFile(path, target, constants.COPYFILE_EXCL);
      }
      const containerId = `process-${randomUUID()}`;
      await write(spec, { containerId, pid: null, startTicks: "" });
      return { containerId, imageId: "none" };
    },
    async start(spec, containerId) {
      if ((await alive(spec)) !== null) return;
      await checkSandboxDirectory(spec.directory);
      const log = openLog(fileOf(spec, "bridge.log"));
      try {
        const child = spawn(options.node, [fileOf(spec, "bridge.cjs"), fileOf(spec, "bridge.json")], {
          cwd: spec.directory,
          // It outlives this controller: a turn goes on while the controller is away.
          detached: true,
          stdio: ["ignore", log, log],
          env: { ...options.environment },
        });
        child.once("error", () => undefined);
        child.unref();
        if (child.pid === undefined)
          throw new HoldfastError("BRIDGE_GONE", "the bridge's process can't be started");
        await write(spec, { containerId, pid: child.pid, startTicks: (await startTicks(child.pid)) ?? "" });
      } finally {
        closeSync(log);
      }
    },
    async stop(spec, _, graceMs) {
      await stop(spec, graceMs);
      // It may be the child of another controller.
      return null;
    },
    async remove(spec) {
      if (!(await checkSandboxDirectory(spec.directory))) return;
      await stop(spec, REMOVE_GRACE_MS);
      await endLeft(spec);
      const own = ["state", "slots", "workspace", "bridge.cjs", "bridge.log", "process.json"];
      for (const name of [...own, ...beside.map((path) => basename(path))]) {
        await rm(fileOf(spec, name), { recursive: true, force: true });
      }
    },
    async state(spec, containerId) {
      if ((await read(spec))?.containerId !== containerId) return "missing";
      return (await alive(spec)) === null ? "stopped" : "running";
    },
    async measure(spec) {
      let helper: { sha256: string } | { problem: string };
      try {
        helper = { sha256: await digestOf(fileOf(spec, "bridge.cjs")) };
      } catch (error) {
        helper = { problem: error instanceof Error ? error.message : String(error) };
      }
      return { imageId: null, pinLabel: null, helper, manifest: null, foreignMounts: [], changedCode: [] };
    },
    list: async () => [],
    async logTail(spec) {
      const flag = constants.O_RDONLY | constants.O_NOFOLLOW;
      const text = await readFile(fileOf(spec, "bridge.log"), { encoding: "utf8", flag }).catch(
        (error: NodeJS.ErrnoException) => {
          // A link is none of ours, and what it leads to nobody's log.
          if (error.code === "ENOENT" || error.code === "ELOOP") return "";
          throw error;
        },
      );
      return text.slice(-LOG_TAIL_CHARS);
    },
  };
}

/** Agents of this sandbox are the same user: the log may be a link by now, and what it leads to is not ours to write. */
function openLog(path: string): number {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
  try {
    return openSync(path, flags, 0o600);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ELOOP") throw cause;
    throw new HoldfastError("SANDBOX_FOREIGN", `${path} is a link`, { cause });
  }
}

async function digestOf(path: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(path))
    .digest("hex");
}

/** When the process started, in clock ticks since boot; null when it is gone or a zombie. */
async function startTicks(pid: number): Promise<string | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? null : (fields[19] ?? null);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return null;
    throw error;
  }
}

/** Processes (no zombies) that have a text in their environment; those of other users can't be looked at. */
async function processesUnder(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    const environment = await readFile(`/proc/${name}/environ`, "utf8").catch(() => "");
    if (environment.includes(text) && (await startTicks(Number(name))) !== null) found.push(Number(name));
  }
  return found;
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
