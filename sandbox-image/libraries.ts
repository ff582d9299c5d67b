// Which folders of clis/node_modules belong to one pinned CLI, by the lock file alone: its package, and for JavaScript
// every library that Node would find from it. Pure; whether they are installed is the caller's to see.

import * as z from "zod";
import type { CliPin } from "./pins.ts";

const names = z.record(z.string(), z.string()).optional();
const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      integrity: z.string().optional(),
      dependencies: names,
      optionalDependencies: names,
      peerDependencies: names,
    }),
  ),
});

export type LockedPackages = z.infer<typeof lockSchema>["packages"];

export interface PinnedFolder {
  /** From the folder of the lock file, such as `node_modules/a/node_modules/b`. */
  folder: string;
  /** What the lock file holds it to. */
  integrity: string;
}

export function parseLock(text: string): LockedPackages {
  return lockSchema.parse(JSON.parse(text)).packages;
}

/** The package's own folder first, then its libraries by name. Throws for a library that the lock file lacks. */
export function foldersOf(pin: CliPin, locked: LockedPackages): PinnedFolder[] {
  const own = `node_modules/${pin.package}`;
  const found = new Set([own]);
  if (pin.kind === "script") for (const folder of found) addLibraries(folder, locked, found);
  return [own, ...[...found].filter((folder) => folder !== own).sort()].map((folder) => {
    const integrity = locked[folder]?.integrity;
    if (integrity === undefined) throw new Error(`the lock file has no digest for ${folder}`);
    return { folder, integrity };
  });
}

/** A set may grow while it is walked: what is added here is walked later. */
function addLibraries(folder: string, locked: LockedPackages, found: Set<string>): void {
  const { dependencies, optionalDependencies, peerDependencies } = locked[folder] ?? {};
  for (const name of Object.keys(dependencies ?? {})) {
    const library = resolve(folder, name, locked);
    if (library !== null) found.add(library);
    else if (optionalDependencies?.[name] === undefined)
      throw new Error(`the lock file lacks ${name}, which ${folder} needs`);
  }
  for (const name of Object.keys({ ...optionalDependencies, ...peerDependencies })) {
    const library = resolve(folder, name, locked);
    if (library !== null) found.add(library);
  }
}

/** As Node looks for it: in the folder's own node_modules, then in each above. */
function resolve(from: string, name: string, locked: LockedPackages): string | null {
  for (let place = from; ; place = place.slice(0, place.lastIndexOf("node_modules/")).replace(/\/$/, "")) {
    const candidate = `${place === "" ? "" : `${place}/`}node_modules/${name}`;
    if (locked[candidate] !== undefined) return candidate;
    if (place === "") return null;
  }
}
