// What the base made of Debian packages consists of, as data, and the digest that names it. Pure; fetches nothing.

import { digestOfValue } from "./digest.ts";
import { IMAGE_FOLDERS, SLOT_GROUP } from "./layout.ts";

/** Raised whenever base-assembly.ts lays the same packages out in another way. */
const ASSEMBLY_VERSION = 1;

/** What an agent's shell commands may count on; their libraries come along by apt's own resolution. */
export const BASE_PACKAGES: readonly string[] = [
  "base-files",
  "base-passwd",
  "bash",
  "coreutils",
  "dash",
  "debianutils",
  "diffutils",
  "findutils",
  "git",
  "grep",
  "gzip",
  "hostname",
  "less",
  "libc-bin",
  // Node's own need; nothing else here brings it.
  "libstdc++6",
  "mawk",
  "ncurses-base",
  "ncurses-bin",
  "patch",
  "perl-base",
  "ripgrep",
  "sed",
  "tar",
  "tini",
  "xz-utils",
];

/**
 * Told to apt as already installed, so that they stay out. perl-base is enough for git's own needs; no package is
 * installed in a sandbox afterwards, since slots are not root, so dpkg and its friends have no use.
 */
export const LEFT_OUT_PACKAGES: readonly string[] = [
  "debconf",
  "debconf-2.0",
  "dpkg",
  "init-system-helpers",
  "liberror-perl",
  "perl",
];

/** Below the root, not unpacked. Copyright files stay. */
export const LEFT_OUT_PATHS: readonly string[] = [
  "usr/share/bash-completion",
  "usr/share/info",
  "usr/share/lintian",
  "usr/share/locale",
  "usr/share/man",
];

/** Links that the packages' own scripts would make; those scripts are not run. */
export const ALTERNATIVES: readonly { path: string; target: string }[] = [
  { path: "usr/bin/awk", target: "mawk" },
  { path: "usr/bin/nawk", target: "mawk" },
  { path: "usr/bin/pager", target: "less" },
  { path: "usr/bin/which", target: "which.debianutils" },
];

export interface RecipeInputs {
  /** Distribution and its version, such as "debian 12": the packages come from this machine's own sources. */
  distribution: string;
  /** Digest of the CA certificates that go in. */
  certificatesSha256: string;
}

/** The digest that names a base; equal recipes are never assembled twice on an engine. */
export function recipeDigest(inputs: RecipeInputs): string {
  return digestOfValue({
    assembly: ASSEMBLY_VERSION,
    packages: BASE_PACKAGES,
    leftOutPackages: LEFT_OUT_PACKAGES,
    leftOutPaths: LEFT_OUT_PATHS,
    alternatives: ALTERNATIVES,
    folders: IMAGE_FOLDERS,
    group: SLOT_GROUP,
    distribution: inputs.distribution,
    certificates: inputs.certificatesSha256,
  });
}

/** "debian 12" of the text of /etc/os-release; undefined for a system that isn't Debian or Ubuntu. */
export function distributionOf(osRelease: string): string | undefined {
  const field = (name: string): string | undefined =>
    new RegExp(`^${name}="?([^"\\n]*)"?$`, "m").exec(osRelease)?.[1];
  const id = field("ID");
  return id === "debian" || id === "ubuntu" ? `${id} ${field("VERSION_ID") ?? "rolling"}` : undefined;
}
