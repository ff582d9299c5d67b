// The other way to keep a state: all of it at each transition. Encoded once, and written as safely as the store's own
// steps: temporary file in the same folder (0600), fsync, rename, fsync of the folder.
import { mkdir, open, rename } from "node:fs/promises";
import { join } from "node:path";

/** Of the state that the seeds measured. */
export const SNAPSHOT_BYTES = 9_400_000;

/** Records like a settled turn's until their JSON has the size. */
export function stateOfSize(record: unknown, bytes: number): unknown[] {
  const each = Buffer.byteLength(JSON.stringify(record)) + 1;
  return Array.from({ length: Math.round(bytes / each) }, () => record);
}

export interface SnapshotCost {
  bytes: number;
  encodeMs: number;
  totalMs: number;
}

export async function writeSnapshot(folder: string, state: unknown): Promise<SnapshotCost> {
  const beganMs = performance.now();
  const bytes = Buffer.from(JSON.stringify(state));
  const encodeMs = performance.now() - beganMs;
  const temporary = join(folder, "snapshot.tmp");
  const file = await open(temporary, "w", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(folder, "snapshot.json"));
  const directory = await open(folder, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
  return { bytes: bytes.length, encodeMs, totalMs: performance.now() - beganMs };
}

export async function snapshotFolder(directory: string): Promise<string> {
  const folder = join(directory, "snapshots");
  await mkdir(folder, { mode: 0o700 });
  return folder;
}
