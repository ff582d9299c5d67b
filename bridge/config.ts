/**
 * Reads the bridge's configuration: from the directory that the controller mounts read-only, or, for a `process`
 * sandbox, from the path given as first argument. Only this file and `main.ts` read files and environment.
 */
import { readFileSync } from "node:fs";
import { BridgeConfig } from "../protocol/bridge-config.ts";
import { HoldfastError } from "../protocol/errors.ts";

/** Where the mounted directory is in a container. */
export const DEFAULT_CONFIG_PATH = "/run/holdfast/bridge.json";

/** Reads and checks the file. Throws REQUEST_INVALID that names the field. */
export function readConfig(path: string): BridgeConfig {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new HoldfastError("REQUEST_INVALID", `the bridge's configuration can't be read from ${path}`, {
      cause,
    });
  }
  const parsed = BridgeConfig.safeParse(value);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues[0]?.path.join(".") ?? "";
  throw new HoldfastError("REQUEST_INVALID", `the bridge's configuration is wrong at "${where}" (${path})`);
}
