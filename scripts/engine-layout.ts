// Where an engine of ours keeps its things and with which arguments its two daemons start: pure, touches no disk.
// The usual engine uses the usual places; one with a root of its own shares nothing with it, not even a bridge.

import { createHash } from "node:crypto";
import { join } from "node:path";

/** The kernel's limit for a Unix socket's path, without the closing zero. */
const MAX_SOCKET_PATH_BYTES = 107;

export interface EngineLayout {
  apiSocket: string;
  pidFile: string;
  containerdSocket: string;
  containerdConfig: { root: string; state: string } | undefined;
  /** A containerd that an earlier dockerd started and left behind; used when it still answers. */
  managedContainerdSocket: string | undefined;
  containerdPidFile: string;
  dockerdLog: string;
  containerdLog: string;
  directories: string[];
  /** Undefined: docker0 with its rules. Else a bridge made beforehand, since `-b` only takes one that exists. */
  bridge: { name: string; address: string } | undefined;
  /** Undefined for the usual engine. */
  root: string | undefined;
}

/** The layout for a root of its own, or for the usual engine. A root too long for its sockets is a TypeError. */
export function engineLayout(root: string | undefined): EngineLayout {
  if (root === undefined) {
    const logs = "/var/log/holdfast-engine";
    return {
      apiSocket: "/var/run/docker.sock",
      pidFile: "/var/run/docker.pid",
      containerdSocket: "/run/containerd/containerd.sock",
      containerdConfig: undefined,
      managedContainerdSocket: "/var/run/docker/containerd/containerd.sock",
      containerdPidFile: "/run/containerd/holdfast.pid",
      dockerdLog: join(logs, "dockerd.log"),
      containerdLog: join(logs, "containerd.log"),
      directories: [logs, "/run/containerd"],
      bridge: undefined,
      root: undefined,
    };
  }
  const containerdSocket = join(root, "c", "c.sock");
  // containerd puts a second socket beside its own and shims put theirs under its state; this is the longest we name.
  const longest = `${containerdSocket}.ttrpc`;
  if (Buffer.byteLength(longest) > MAX_SOCKET_PATH_BYTES) {
    throw new TypeError(
      `engine root is too long for a Unix socket in it (${MAX_SOCKET_PATH_BYTES} bytes): ${root}`,
    );
  }
  const digest = createHash("sha256").update(root).digest();
  return {
    apiSocket: join(root, "api.sock"),
    pidFile: join(root, "dockerd.pid"),
    containerdSocket,
    containerdConfig: { root: join(root, "c", "root"), state: join(root, "c", "state") },
    managedContainerdSocket: undefined,
    containerdPidFile: join(root, "containerd.pid"),
    dockerdLog: join(root, "dockerd.log"),
    containerdLog: join(root, "containerd.log"),
    directories: [root, join(root, "c")],
    bridge: {
      name: `hf${digest.toString("hex").slice(0, 10)}`,
      address: `10.213.${digest.readUInt8(0)}.1/24`,
    },
    root,
  };
}

export function containerdArguments(layout: EngineLayout): string[] {
  const own = layout.containerdConfig;
  return [
    "--address",
    layout.containerdSocket,
    ...(own === undefined ? [] : ["--root", own.root, "--state", own.state]),
  ];
}

/** `--live-restore`: without it a restart after a crash of dockerd ends the containers that outlived it. */
export function dockerdArguments(
  layout: EngineLayout,
  containerdSocket: string,
  hasIptables: boolean,
): string[] {
  const common = ["--live-restore", "--containerd", containerdSocket, "--pidfile", layout.pidFile];
  const host = ["--host", `unix://${layout.apiSocket}`];
  if (layout.root === undefined || layout.bridge === undefined) {
    return [...common, ...host, ...(hasIptables ? [] : ["--iptables=false"])];
  }
  return [
    ...common,
    ...host,
    "--data-root",
    join(layout.root, "data"),
    "--exec-root",
    join(layout.root, "x"),
    "--bridge",
    layout.bridge.name,
    "--iptables=false",
  ];
}
