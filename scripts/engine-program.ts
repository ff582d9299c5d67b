// Where a program lies; starts none.

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Where daemons lie although a user's PATH often leaves them out. */
export const DAEMON_PATH: string = [
  process.env.PATH ?? "",
  "/usr/local/sbin",
  "/usr/sbin",
  "/sbin",
  "/usr/local/bin",
  "/usr/bin",
  "/bin",
]
  .filter((entry) => entry !== "")
  .join(delimiter);

/** The first executable file of that name; undefined when there is none. */
export function findProgram(name: string, path: string = DAEMON_PATH): string | undefined {
  for (const folder of path.split(delimiter)) {
    const candidate = join(folder, name);
    try {
      accessSync(candidate, constants.X_OK);
      return candidate;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}
