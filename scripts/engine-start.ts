// Starts containerd and dockerd so that they outlive us, and waits until the engine answers. Installs nothing and
// decides nothing about which engine to use.
//
// containerd is a process of its own: one that dockerd manages itself survives a kill of dockerd and keeps the next
// dockerd from starting for half a minute.

import { spawn } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createConnection } from "node:net";
import { runCommand } from "../sandbox-image/command.ts";
import { pingEngine } from "../sandbox-image/engine-http.ts";
import { containerdArguments, dockerdArguments, type EngineLayout } from "./engine-layout.ts";
import { processOf, settlePidFile } from "./engine-pidfile.ts";
import { DAEMON_PATH, findProgram } from "./engine-program.ts";

const POLL_MS = 50;
const CONNECT_TIMEOUT_MS = 1_000;
const CONTAINERD_TIMEOUT_MS = 20_000;
const DOCKERD_TIMEOUT_MS = 45_000;
const TAIL_LINES = 20;

/** Starts what isn't running. Rejects with the last lines of the log of the daemon that failed. */
export async function startEngine(layout: EngineLayout, report: (line: string) => void): Promise<void> {
  for (const folder of layout.directories) mkdirSync(folder, { recursive: true, mode: 0o711 });
  const alreadyThere = settlePidFile(layout.pidFile, "dockerd");
  if (alreadyThere !== undefined) {
    report(`dockerd ${alreadyThere} lives but doesn't answer yet: waiting for it`);
    await waitForEngine(layout, alreadyThere);
    return;
  }
  const containerdSocket = await ensureContainerd(layout, report);
  if (layout.bridge !== undefined) await ensureBridge(layout.bridge);
  if (await isListening(layout.apiSocket))
    throw new Error(`something that is no engine listens on ${layout.apiSocket}`);
  rmSync(layout.apiSocket, { force: true });
  const args = dockerdArguments(layout, containerdSocket, findProgram("iptables") !== undefined);
  report("starting dockerd");
  try {
    await waitForEngine(layout, startDaemon("dockerd", args, layout.dockerdLog));
  } catch {
    // A daemon that died between our look and its start can leave a pid file or a socket behind: once more, not twice.
    report("dockerd didn't come up: trying once more");
    const living = settlePidFile(layout.pidFile, "dockerd");
    await waitForEngine(layout, living ?? startDaemon("dockerd", args, layout.dockerdLog));
  }
}

/** The last 20 lines of a log, or that there is none. */
function logTail(path: string): string {
  try {
    return readFileSync(path, "utf8").trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
  } catch (cause) {
    return `(no log to read: ${(cause as NodeJS.ErrnoException).code})`;
  }
}

/** Whether somebody accepts connections there. A socket file whose owner is gone refuses them. */
function isListening(socketPath: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = createConnection(socketPath);
  const done = (answer: boolean): void => {
    probe.destroy();
    resolve(answer);
  };
  probe.setTimeout(CONNECT_TIMEOUT_MS, () => done(false));
  probe.once("connect", () => done(true));
  probe.once("error", () => done(false));
  return promise;
}

async function ensureContainerd(layout: EngineLayout, report: (line: string) => void): Promise<string> {
  for (const socket of [layout.managedContainerdSocket, layout.containerdSocket]) {
    if (socket !== undefined && (await isListening(socket))) return socket;
  }
  rmSync(layout.containerdSocket, { force: true });
  report("starting containerd");
  const pid = startDaemon("containerd", containerdArguments(layout), layout.containerdLog);
  writeFileSync(layout.containerdPidFile, `${pid}\n`);
  const deadline = Date.now() + CONTAINERD_TIMEOUT_MS;
  while (!(await isListening(layout.containerdSocket))) {
    if (!isRunning(pid) || Date.now() > deadline) {
      throw new Error(`containerd did not come up; its log ends:\n${logTail(layout.containerdLog)}`);
    }
    await pause();
  }
  return layout.containerdSocket;
}

async function waitForEngine(layout: EngineLayout, pid: number): Promise<void> {
  const deadline = Date.now() + DOCKERD_TIMEOUT_MS;
  while (!(await pingEngine(layout.apiSocket))) {
    if (!isRunning(pid) || Date.now() > deadline) {
      throw new Error(`dockerd did not come up; its log ends:\n${logTail(layout.dockerdLog)}`);
    }
    await pause();
  }
}

/** A bridge of its own: an engine told to use none deletes the usual engine's docker0. */
async function ensureBridge(bridge: { name: string; address: string }): Promise<void> {
  if (existsSync(`/sys/class/net/${bridge.name}`)) return;
  const ip = findProgram("ip");
  if (ip === undefined)
    throw new Error("a second engine needs the program ip (package iproute2) for its bridge");
  for (const args of [
    ["link", "add", "name", bridge.name, "type", "bridge"],
    ["address", "add", bridge.address, "dev", bridge.name],
    ["link", "set", bridge.name, "up"],
  ]) {
    const end = await runCommand(ip, args, { timeoutMs: 10_000 });
    if (!end.isSuccess) throw new Error(`ip ${args.join(" ")}: ${end.tail.trim()}`);
  }
}

/** A session of its own, no terminal, its log a file: nothing of ours that ends takes it along. */
function startDaemon(name: string, args: readonly string[], logPath: string): number {
  const program = findProgram(name);
  if (program === undefined) throw new Error(`${name} is missing`);
  if (existsSync(logPath)) renameSync(logPath, `${logPath}.before`);
  const log = openSync(logPath, "a", 0o640);
  try {
    const child = spawn(program, args, {
      detached: true,
      stdio: ["ignore", log, log],
      cwd: "/",
      env: { ...process.env, PATH: DAEMON_PATH },
    });
    // The cause is in the log or in the missing pid; an unheard error event would end us instead.
    child.once("error", () => undefined);
    child.unref();
    if (child.pid === undefined) throw new Error(`${name} could not be started`);
    return child.pid;
  } finally {
    closeSync(log);
  }
}

function isRunning(pid: number): boolean {
  const fact = processOf(pid);
  return fact !== undefined && fact.state !== "Z" && fact.state !== "X";
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
