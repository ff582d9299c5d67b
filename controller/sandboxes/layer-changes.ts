/**
 * Which changes of a container's writable layer touch what the image brought as code: the bridge, the CLIs, the programs
 * and libraries that they run with. Pure. Agents can't make such changes, they are no root; what an agent makes lies in
 * its slot, the workspace and the temporary folders, which are retained and not judged.
 */
import * as z from "zod/mini";

/** What the engine's list of changes holds: 0 modified, 1 added, 2 deleted. */
export const LayerChanges = z.nullable(z.array(z.object({ Path: z.string(), Kind: z.number() })));

const CODE = ["/opt", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"] as const;
/** Written by the engine itself, where it does not mount them. */
const ENGINES_OWN: ReadonlySet<string> = new Set([
  "/etc/hostname",
  "/etc/hosts",
  "/etc/mtab",
  "/etc/resolv.conf",
]);
const KINDS = ["changed", "added", "deleted"] as const;
/** Paths that are named. Beyond: counted. */
const NAMED = 5;

/** One text a change, e.g. `/opt/holdfast/node (changed)`; a folder is named only when nothing in it is. */
export function codeChanges(changes: z.infer<typeof LayerChanges>): string[] {
  const touched = (changes ?? []).filter(({ Path }) => isCode(Path));
  const paths = touched.map(({ Path }) => Path);
  const leaves = touched.filter(({ Path }) => !paths.some((other) => other.startsWith(`${Path}/`)));
  // The engine replaces its own files, by which their folder counts as changed.
  const judged = leaves.filter(
    ({ Path, Kind }) => !(Path === "/etc" && Kind === 0) && !ENGINES_OWN.has(Path),
  );
  const named = judged.slice(0, NAMED).map(({ Path, Kind }) => `${Path} (${KINDS[Kind] ?? `kind ${Kind}`})`);
  return judged.length > NAMED ? [...named, `and ${judged.length - NAMED} more`] : named;
}

function isCode(path: string): boolean {
  return CODE.some((folder) => path === folder || path.startsWith(`${folder}/`));
}
