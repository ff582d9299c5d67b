// Puts Debian packages on a Debian or Ubuntu machine. Starts nothing, adds no package source, and does nothing on
// other systems.

import { readFileSync } from "node:fs";
import { runCommand } from "../sandbox-image/command.ts";
import { findProgram } from "./engine-program.ts";

const UPDATE_TIMEOUT_MS = 120_000;
const INSTALL_TIMEOUT_MS = 300_000;

export interface PackagesWanted {
  /** What is missing, as the error names it: "dockerd is missing". */
  missing: string;
  packages: readonly string[];
  /** About how much is fetched. */
  megabytes: number;
}

/** What keeps this machine from getting packages; undefined when nothing does. */
export function installObstacle(options: {
  osRelease: string;
  uid: number;
  hasAptGet: boolean;
}): string | undefined {
  const words = /^ID(?:_LIKE)?=(.*)$/gm;
  const ids = [...options.osRelease.matchAll(words)].flatMap((match) =>
    (match[1] ?? "").replaceAll('"', "").trim().split(/\s+/),
  );
  if (!ids.includes("debian") && !ids.includes("ubuntu")) return "this is neither Debian nor Ubuntu";
  if (!options.hasAptGet) return "apt-get is missing";
  if (options.uid !== 0) return "installing packages needs root";
  return undefined;
}

/** Rejects with what stands in the way, or with what apt said last. */
export async function installPackages(wanted: PackagesWanted, report: (line: string) => void): Promise<void> {
  const obstacle = installObstacle({
    osRelease: readOsRelease(),
    uid: process.getuid?.() ?? -1,
    hasAptGet: findProgram("apt-get") !== undefined,
  });
  const { missing, packages, megabytes } = wanted;
  if (obstacle !== undefined) {
    throw new Error(
      `${missing} and can't be installed here: ${obstacle}. Install it first (Debian: ${packages.join(" ")})`,
    );
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const patience = [
    "-o",
    "DPkg::Lock::Timeout=120",
    "-o",
    "Acquire::Retries=3",
    "-o",
    "Acquire::http::Timeout=20",
  ];
  report("refreshing the package lists");
  const update = await runCommand("apt-get", [...patience, "-qq", "update"], {
    timeoutMs: UPDATE_TIMEOUT_MS,
    env,
  });
  // One source out of order must not stop an install that the others can serve.
  if (!update.isSuccess) report(`apt-get update had errors, going on: ${lastLine(update.tail)}`);
  report(`installing ${packages.join(", ")} (about ${megabytes} MB)`);
  const install = await runCommand(
    "apt-get",
    [...patience, "-qq", "-y", "--no-install-recommends", "install", ...packages],
    { timeoutMs: INSTALL_TIMEOUT_MS, env },
  );
  if (!install.isSuccess) {
    throw new Error(`apt-get install failed:\n${install.tail.trim().split("\n").slice(-20).join("\n")}`);
  }
}

function readOsRelease(): string {
  try {
    return readFileSync("/etc/os-release", "utf8");
  } catch {
    return "";
  }
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
