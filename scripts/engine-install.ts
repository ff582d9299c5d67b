// Which packages make a container engine. Starts none of their programs.

import { installPackages } from "./packages-install.ts";

/** Installs docker.io, iptables (docker0 needs it) and tini (`--init` needs it). Rejects with what apt said last. */
export async function installEngine(report: (line: string) => void): Promise<void> {
  const packages = ["docker.io", "iptables", "tini"];
  await installPackages({ missing: "dockerd is missing", packages, megabytes: 70 }, report);
}
