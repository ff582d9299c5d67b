/** Small file systems in memory, to be filled to the last byte. Needs root. */
import { randomUUID } from "node:crypto";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "../../sandbox-image/command.ts";

const LIMIT_MS = 30_000;

export async function mountMemory(folder: string, sizeMiB: number): Promise<void> {
  await command("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m`, "none", folder]);
}

export async function unmount(folder: string): Promise<void> {
  await command("umount", ["-l", folder]);
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
