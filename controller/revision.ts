/**
 * Which controller this is. In a source checkout it runs its source files as they are, so that its revision is the digest of
 * those; where it was bundled, the digest of the bundle. The version alone tells no two builds apart. What was read is what
 * lies on the disk now: a controller that runs has what lay there when it began, and says that of itself (`heartbeat.ts`).
 */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod/mini";
import { parsedJson } from "./parsed-json.ts";

export interface Revision {
  /** Of the package. */
  version: string;
  /** Hex. */
  sha256: string;
  /** What was digested. */
  of: "sources" | "bundle";
}

/** Folders and files of which a controller consists in a checkout; what the lock file names is part of it. */
const SOURCES = ["controller", "protocol", "package.json", "package-lock.json"] as const;
const Package = z.looseObject({ version: z.string() });

/** @param options.own the file of this module, and the folder above `controller/` */
export async function readRevision({
  own = fileURLToPath(import.meta.url),
  root = fileURLToPath(new URL("..", import.meta.url)),
}: {
  own?: string;
  root?: string;
} = {}): Promise<Revision> {
  const isCheckout = own === join(root, "controller", "revision.ts");
  const files = isCheckout ? (await Promise.all(SOURCES.map((name) => filesBelow(root, name)))).flat() : [];
  if (files.length === 0) {
    return {
      version: await versionAt(join(own, "..", "..")),
      sha256: digest(await readFile(own)),
      of: "bundle",
    };
  }
  const lines = await Promise.all(
    files.sort().map(async (name) => `${digest(await readFile(join(root, name)))}  ${name}\n`),
  );
  return { version: await versionAt(root), sha256: digest(lines.join("")), of: "sources" };
}

/** Paths below the root, with slashes; [] for what is not there. */
async function filesBelow(root: string, name: string): Promise<string[]> {
  const entries = await readdir(join(root, name), { withFileTypes: true, recursive: true }).catch(
    (error: NodeJS.ErrnoException) => (error.code === "ENOTDIR" ? null : []),
  );
  if (entries === null) return [name];
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replace(/^\/+/, ""));
}

async function versionAt(folder: string): Promise<string> {
  const text = await readFile(join(folder, "package.json"), "utf8").catch(() => "");
  const parsed = Package.safeParse(parsedJson(text));
  return parsed.success ? parsed.data.version : "unknown";
}

function digest(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}
