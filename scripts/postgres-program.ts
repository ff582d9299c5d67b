// Where a PostgreSQL server's programs lie. Debian keeps them out of every PATH, in a folder of each version.

import { accessSync, constants, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { findProgram } from "./engine-program.ts";

const DEBIAN_FOLDER = "/usr/lib/postgresql";

/** The folder of `postgres` and `initdb`, the newest version's; undefined when there is none. */
export function postgresFolder(debian: string = DEBIAN_FOLDER): string | undefined {
  const newestFirst = versionsIn(debian).sort((a, b) => Number(b) - Number(a));
  const packaged = newestFirst.map((version) => join(debian, version, "bin")).find(hasServer);
  if (packaged !== undefined) return packaged;
  const inPath = findProgram("postgres");
  return inPath === undefined ? undefined : dirname(inPath);
}

function versionsIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function hasServer(folder: string): boolean {
  try {
    for (const name of ["postgres", "initdb"]) accessSync(join(folder, name), constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
