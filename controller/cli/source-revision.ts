/** What the checkout says of itself by programs of its own: the commit, where there is git, and the bridge that it would build. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "./environment.ts";

const GIT_MS = 5000;
const BUILD_MS = 60_000;
/** What an image is built from, and a controller runs. */
const BUILT_FROM = ["bridge", "controller", "protocol", "sandbox-image", "package.json", "package-lock.json"];

/** The commit that is checked out, and whether the files are as they are in it; null where there is no git of this folder. */
export async function gitCommit(root: string): Promise<{ commit: string; isClean: boolean } | null> {
  // A folder below somebody else's repository has nothing to do with that one's commits.
  if (!existsSync(join(root, ".git"))) return null;
  const head = await outputOf("git", ["-C", root, "rev-parse", "HEAD"], GIT_MS);
  const changes = await outputOf("git", ["-C", root, "status", "--porcelain", "--", ...BUILT_FROM], GIT_MS);
  if (head === null || !/^[0-9a-f]{40,64}$/.test(head) || changes === null) return null;
  return { commit: head, isClean: changes === "" };
}

/** Digest of the bridge that this checkout would build, by its own build program; the problem where it can't. */
export async function builtHelper({
  root,
  node,
}: Pick<Environment, "root" | "node">): Promise<{ sha256: string } | { problem: string }> {
  const program = join(root, "sandbox-image", "build.ts");
  if (!existsSync(program)) return { problem: "this package has no sources to build it from" };
  const sha256 = await outputOf(node, [program, "--helper-digest"], BUILD_MS);
  if (sha256 === null || !/^[0-9a-f]{64}$/.test(sha256))
    return { problem: "the build of the bridge fails here" };
  return { sha256 };
}

/** Standard output without its last line feed; null when it ended in any other way than well. */
function outputOf(file: string, args: readonly string[], timeout: number): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(file, args, { timeout, killSignal: "SIGKILL" }, (error, stdout) => {
      resolve(error === null ? stdout.trim() : null);
    });
  });
}
