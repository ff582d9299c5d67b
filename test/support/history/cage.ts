/**
 * `process` sandboxes without a network: a bundle whose bridge is started in a network namespace of its own, where there is
 * loopback and nothing else. Model and controller are reached by Unix sockets, as in a container. Linux, and root or a
 * kernel that lets users make namespaces.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const DIST = new URL("../../../dist/", import.meta.url);
const UNSHARE = process.getuid?.() === 0 ? "unshare --net" : "unshare --user --map-root-user --net";
const LOOPBACK = "ip link set lo up";

/** Whether this machine can do it. */
export const canCage: boolean = succeeds("/bin/sh", ["-c", `${UNSHARE} -- sh -c '${LOOPBACK}'`]);

export interface Cage {
  /** To be given to a host as its `distDirectory`. */
  readonly distDirectory: string;
  remove(): void;
}

export function makeCage(): Cage {
  const folder = mkdtempSync(join(tmpdir(), "hf-cage-"));
  const bundle = JSON.parse(readFileSync(new URL("bundle.json", DIST), "utf8")) as { node: string };
  const node = join(folder, "node");
  const script = `#!/bin/sh\nexec ${UNSHARE} -- sh -c '${LOOPBACK} && exec "$@"' sh '${bundle.node}' "$@"\n`;
  writeFileSync(node, script);
  chmodSync(node, 0o755);
  writeFileSync(join(folder, "bundle.json"), JSON.stringify({ ...bundle, node }));
  return { distDirectory: folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** The network interfaces that a process has, and how many routes out. */
export function networkOf(pid: number): { interfaces: string[]; routes: number } {
  const lines = (name: string) =>
    readFileSync(`/proc/${pid}/net/${name}`, "utf8")
      .split("\n")
      .filter((line) => line.trim() !== "");
  return {
    interfaces: lines("dev")
      .slice(2)
      .map((line) => line.split(":")[0]?.trim() ?? ""),
    routes: lines("route").length - 1,
  };
}

function succeeds(program: string, words: readonly string[]): boolean {
  try {
    execFileSync(program, words, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
