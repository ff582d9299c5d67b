// Ends an engine that has a root of its own, and removes its bridge and mounts; for tests of a fresh machine. Never
// touches the usual engine, and leaves the root's files to whoever made the root.

import { existsSync, readFileSync } from "node:fs";
import { runCommand } from "../sandbox-image/command.ts";
import { engineJson, engineRequest, pingEngine } from "../sandbox-image/engine-http.ts";
import { engineLayout } from "./engine-layout.ts";
import { processOf, settlePidFile } from "./engine-pidfile.ts";
import { findProgram } from "./engine-program.ts";

const STOP_TIMEOUT_MS = 15_000;

export async function stopOwnEngine(root: string): Promise<void> {
  const layout = engineLayout(root);
  const socketPath = layout.apiSocket;
  if (await pingEngine(socketPath)) {
    // With live-restore the containers would outlive their engine.
    const query = { all: "true" };
    const all = await engineJson<{ Id: string }[]>({
      socketPath,
      method: "GET",
      path: "/containers/json",
      query,
    });
    for (const { Id } of all ?? []) {
      await engineRequest({
        socketPath,
        method: "DELETE",
        path: `/containers/${Id}`,
        query: { force: "true" },
      });
    }
  }
  await endDaemon(settlePidFile(layout.pidFile, "dockerd"), "dockerd", root);
  await endDaemon(settlePidFile(layout.containerdPidFile, "containerd"), "containerd", root);
  const mounts = readFileSync("/proc/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "")
    .filter((target) => target.startsWith(`${root}/`));
  for (const target of mounts.reverse()) await runCommand("umount", ["-l", target], { timeoutMs: 5_000 });
  if (layout.bridge !== undefined && existsSync(`/sys/class/net/${layout.bridge.name}`)) {
    await runCommand(findProgram("ip") ?? "ip", ["link", "delete", layout.bridge.name], { timeoutMs: 5_000 });
  }
}

async function endDaemon(pid: number | undefined, name: string, root: string): Promise<void> {
  // The number in an old file can by now be that of another engine's daemon.
  if (pid === undefined || !readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(root)) return;
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    process.kill(pid, signal);
    const deadline = Date.now() + STOP_TIMEOUT_MS;
    while (Date.now() < deadline) {
      const fact = processOf(pid);
      if (fact === undefined || fact.name !== name || fact.state === "Z") return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error(`${name} ${pid} did not end`);
}
