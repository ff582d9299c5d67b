/**
 * Small file systems in memory, to be filled to the last byte. Each names the process that made it, and one whose maker is
 * gone is ended by the next that is made. Needs root.
 */
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "../../sandbox-image/command.ts";
import { isRunAlive, newRun } from "../../scripts/leftovers.ts";

const LIMIT_MS = 30_000;

const PARENT = "/tmp";
const OWNER = ".owner";

/**
 * A folder with a file system of its own. Its path is short on purpose: that of a Unix socket has 107 bytes.
 * @param end what has to be ended before one can go whose maker did not come to it
 */
export async function makeMemoryDisk(
  prefix: string,
  sizeMiB: number,
  end: (folder: string) => Promise<void> = async () => undefined,
): Promise<{ folder: string; remove(): Promise<void> }> {
  for (const name of await readdir(PARENT)) {
    const folder = join(PARENT, name);
    if (name.startsWith(prefix) && isOrphan(folder)) {
      await end(folder);
      await removeDisk(folder);
    }
  }
  const folder = await mkdtemp(join(PARENT, prefix));
  await command("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m`, "none", folder]);
  await writeFile(join(folder, OWNER), newRun());
  return { folder, remove: () => removeDisk(folder) };
}

/** One without a name is being made by somebody, or was left before it was mounted: a folder, and no harm. */
function isOrphan(folder: string): boolean {
  const owner = join(folder, OWNER);
  return existsSync(owner) && !isRunAlive(readFileSync(owner, "utf8"));
}

async function removeDisk(folder: string): Promise<void> {
  await command("umount", ["-l", folder]);
  await rm(folder, { recursive: true, force: true });
}

/** Takes all the room that is left. Returns what gives it back. */
export function fillDisk(folder: string): () => void {
  const path = join(folder, `filler-${randomUUID()}`);
  const file = openSync(path, "w");
  try {
    for (const bytes of [1024 * 1024, 4096, 1]) fillWith(file, Buffer.alloc(bytes, 1));
  } finally {
    closeSync(file);
  }
  return () => rmSync(path, { force: true });
}

function fillWith(file: number, chunk: Buffer): void {
  for (;;) {
    try {
      if (writeSync(file, chunk) < chunk.length) return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOSPC") return;
      throw error;
    }
  }
}

async function command(file: string, args: readonly string[]): Promise<void> {
  const end = await runCommand(file, [...args], { timeoutMs: LIMIT_MS });
  if (!end.isSuccess) throw new Error(`${file} ${args.join(" ")}: ${end.tail.trim()}`);
}
