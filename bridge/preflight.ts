/**
 * What a sandbox must offer before its bridge takes anything on: places that can be written. A root file system that is
 * read-only would otherwise show late and obscurely, as a CLI that does not start or a conversation that seems lost.
 */
import { constants } from "node:fs";
import { access, mkdir } from "node:fs/promises";
import type { BridgeConfig } from "../protocol/bridge-config.ts";
import { HoldfastError, storageFault } from "../protocol/errors.ts";

/** Throws SANDBOX_UNFIT that names every place which can't be written, or DISK_FULL. */
export async function checkPlaces(config: BridgeConfig): Promise<void> {
  const problems: string[] = [];
  for (const path of [config.stateDirectory, config.slotsDirectory, config.workspace]) {
    try {
      // Not its parents: a recursive one never ends where the file system denies that a parent exists.
      if (path !== config.workspace) await mkdir(path, { mode: 0o700 }).catch(passIfThere);
      await access(path, constants.W_OK | constants.X_OK);
    } catch (cause) {
      const fault = storageFault(`${path} can't be made`, cause);
      if (fault.code === "DISK_FULL") throw fault;
      problems.push(`${path} (${(cause as NodeJS.ErrnoException).code ?? "?"})`);
    }
  }
  if (problems.length > 0)
    throw new HoldfastError("SANDBOX_UNFIT", `the sandbox can't write to ${problems.join(", ")}`);
}

function passIfThere(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
