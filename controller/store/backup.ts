/**
 * A copy of the store while it is in use: one snapshot, checked, complete under its name or not there at all. The copy
 * carries a mark, so that whoever opens it as a store knows that time has gone by without it.
 *
 *   read transaction on the store ─▶ pages into FILE.<random> (0600) ─▶ mark, check ─▶ fsync ─▶ link to FILE ─▶ fsync the folder
 */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { link, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import { layoutOf } from "./migrations.ts";
import { BACKUP_MARK, STORE_FILE } from "./sqlite.ts";

/** Pages a step; between steps progress is told and others get their turn. */
const STEP_PAGES = 512;

export interface BackupOptions {
  /** Folder of the store. It may be in use, by this process or another. */
  directory: string;
  /** Where the copy goes. It must not exist; its folder must. */
  file: string;
  nowAt: () => number;
  /** Pages copied so far, of all. */
  onProgress?: (done: number, all: number) => void;
}

/** Size of the copy, bytes. Throws REQUEST_INVALID for the file, STORE_ERROR, STORE_NEWER, STORE_DAMAGED. */
export async function backupStore(options: BackupOptions): Promise<{ bytes: number }> {
  const { directory, file } = options;
  const source = join(directory, STORE_FILE);
  if (!existsSync(source)) throw new HoldfastError("STORE_ERROR", `there is no store in ${directory}`);
  if (existsSync(file)) throw new HoldfastError("REQUEST_INVALID", `${file} exists and is left as it is`);
  const temporary = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await makeOwnerOnly(temporary);
    await copyPages(source, temporary, options);
    finish(temporary, options.nowAt());
    const bytes = await synced(temporary);
    // A rename would replace what somebody else put there in the meantime.
    await link(temporary, file);
    await rm(temporary);
    await synced(dirname(file));
    return { bytes };
  } catch (cause) {
    await removeTemporary(temporary);
    if (cause instanceof HoldfastError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "EEXIST")
      throw new HoldfastError("REQUEST_INVALID", `${file} exists and is left as it is`, { cause });
    throw new HoldfastError("STORE_ERROR", `the backup can't be written to ${file}`, { cause });
  }
}

async function makeOwnerOnly(path: string): Promise<void> {
  const handle = await open(path, "wx", 0o600);
  await handle.close();
}

async function copyPages(source: string, target: string, options: BackupOptions): Promise<void> {
  const from = new DatabaseSync(source, { readOnly: true, timeout: 5000 });
  try {
    layoutOf(from);
    // The snapshot of this transaction is what is copied, however much is written meanwhile: without it every foreign
    // write would begin the copy anew.
    from.exec("BEGIN");
    from.prepare("SELECT count(*) FROM meta").get();
    await backup(from, target, {
      rate: STEP_PAGES,
      progress: ({ totalPages, remainingPages }) =>
        options.onProgress?.(totalPages - remainingPages, totalPages),
    });
  } finally {
    from.close();
  }
}

function finish(path: string, at: number): void {
  const copy = new DatabaseSync(path);
  try {
    // One file, without a log beside it.
    copy.exec("PRAGMA journal_mode = DELETE");
    copy.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)").run(BACKUP_MARK, String(at));
    const [first] = copy.prepare("PRAGMA integrity_check(1)").all();
    if (first?.integrity_check !== "ok")
      throw new HoldfastError("STORE_DAMAGED", `the copy is damaged: ${String(first?.integrity_check)}`);
  } finally {
    copy.close();
  }
}

/** Flushes a file or folder to the disk; its size. */
async function synced(path: string): Promise<number> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
    return (await handle.stat()).size;
  } finally {
    await handle.close();
  }
}

async function removeTemporary(path: string): Promise<void> {
  for (const end of ["", "-journal", "-wal", "-shm"]) await rm(path + end, { force: true });
}
