// Makes sure that the programs are there which tests run as the far end: a PostgreSQL server and restic. Installs what
// is missing on Debian or Ubuntu; makes no cluster and starts nothing.
//   node scripts/test-programs.ts

import { existsSync, rmSync, writeFileSync } from "node:fs";
import { withLock } from "../sandbox-image/lock.ts";
import { findProgram } from "./engine-program.ts";
import { installPackages } from "./packages-install.ts";
import { postgresFolder } from "./postgres-program.ts";

/** Longer than an install: whoever waits gets the other's. */
const LOCK_WAIT_MS = 600_000;
/** Debian's package makes a cluster named `main` and starts it, unless it is told not to. */
const CLUSTER_FOLDER = "/etc/postgresql-common/createcluster.d";
const NO_CLUSTER = `${CLUSTER_FOLDER}/holdfast-tests.conf`;

async function main(): Promise<void> {
  const say = (line: string): void => void process.stderr.write(`test programs: ${line}\n`);
  const wait = {
    waitMs: LOCK_WAIT_MS,
    onWait: () => say("another process is installing packages: waiting"),
  };
  try {
    if (missing().length > 0)
      await withLock("holdfast-engine-install", wait, async () => {
        if (missing().includes("restic"))
          await installPackages({ missing: "restic is missing", packages: ["restic"], megabytes: 8 }, say);
        if (missing().includes("postgresql")) await installPostgres(say);
      });
    process.stdout.write(
      `postgres: ${postgresFolder() ?? "none"}\nrestic: ${findProgram("restic") ?? "none"}\n`,
    );
  } catch (cause) {
    say(cause instanceof Error ? cause.message : String(cause));
    process.exitCode = 1;
  }
}

function missing(): string[] {
  return [
    ...(postgresFolder() === undefined ? ["postgresql"] : []),
    ...(findProgram("restic") === undefined ? ["restic"] : []),
  ];
}

/** The word that no cluster is wanted holds for this install only: the machine's owner may want one later. */
async function installPostgres(say: (line: string) => void): Promise<void> {
  const server = "the PostgreSQL server is missing";
  await installPackages({ missing: server, packages: ["postgresql-common"], megabytes: 12 }, say);
  const isOurs = existsSync(CLUSTER_FOLDER) && !existsSync(NO_CLUSTER);
  if (isOurs) writeFileSync(NO_CLUSTER, "create_main_cluster = false\n");
  try {
    await installPackages({ missing: server, packages: ["postgresql"], megabytes: 40 }, say);
  } finally {
    if (isOurs) rmSync(NO_CLUSTER);
  }
}

if (import.meta.main) await main();
