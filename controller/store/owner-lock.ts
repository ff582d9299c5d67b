/**
 * One owner a store. The lock is a transaction held open on a database of its own beside the store: the kernel lets go
 * of it when the process dies, however it dies, so there is no stale lock to judge. One that a process holds which hangs
 * can be taken over, when somebody says so: the lock's file is replaced, and the fence keeps the old owner from writing.
 */
import { chmodSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";

export interface OwnerLock {
  release(): void;
}

/**
 * Throws STORE_OWNED when another process, or another host object of this one, holds it.
 * @param options.takeOver replaces a lock that is held; the caller must raise the store's fence
 */
export function takeOwnerLock(path: string, { takeOver = false }: { takeOver?: boolean } = {}): OwnerLock {
  try {
    return hold(path);
  } catch (error) {
    if (!takeOver || !(error instanceof HoldfastError) || error.code !== "STORE_OWNED") throw error;
  }
  // The old owner's lock is on a file that no longer has a name.
  for (const name of [path, `${path}-journal`]) rmSync(name, { force: true });
  return hold(path);
}

function hold(path: string): OwnerLock {
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(path, { timeout: 0 });
    // Whoever can read the file can lock it, and so hold the owner off.
    chmodSync(path, 0o600);
    database.exec(
      "PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS owner (pid INTEGER)",
    );
  } catch (cause) {
    database?.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message)) {
      throw new HoldfastError("STORE_OWNED", "another controller owns this store", { cause });
    }
    throw new HoldfastError("STORE_ERROR", "the store's lock can't be taken", { cause });
  }
  const held = database;
  return {
    release() {
      if (held.isOpen) held.close();
    },
  };
}
