/**
 * What a bridge must know to start: one JSON file in the directory that the controller mounts read-only, or, for a
 * `process` sandbox, at the path given as first argument. Only this file and `main.ts` read files and environment.
 */
import { readFileSync } from "node:fs";
import * as z from "zod/mini";
import { HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import { CliName } from "../protocol/locator.ts";

/** Where the mounted directory is in a container. */
export const DEFAULT_CONFIG_PATH = "/run/holdfast/bridge.json";

const AbsolutePath = z.string().check(z.regex(/^\//), z.maxLength(1024));
const LimitMs = z.number().check(z.int(), z.positive());

export const DriverLimits = z.object({
  /** From the start of a CLI's process to its ready line. One start costs two CPU seconds; three at once 7 s. */
  readyMs: LimitMs,
  /** One request to a CLI's own server. */
  requestMs: LimitMs,
  /** A canary must have come back. */
  canaryMs: LimitMs,
  /** No byte on an event stream for this long is its loss. OpenCode sends a heartbeat every 10 s. */
  silenceMs: LimitMs,
  /** From the accepted prompt to the turn's own first event. */
  firstEventMs: LimitMs,
  /** From a reported error or a provisional end to the final one. */
  endOverdueMs: LimitMs,
  /** From an abort to its effect. */
  abortMs: LimitMs,
  /** For each step of a stop: the graceful way, then SIGTERM, then SIGKILL. */
  stopMs: LimitMs,
  /** A whole turn, when its submission names no other. */
  turnMs: LimitMs,
  /** The replies to one permission request, tries and confirmation together. */
  permissionMs: LimitMs,
});
export type DriverLimits = z.infer<typeof DriverLimits>;

export const DEFAULT_LIMITS: DriverLimits = {
  readyMs: 60_000,
  requestMs: 10_000,
  canaryMs: 5000,
  silenceMs: 25_000,
  firstEventMs: 20_000,
  endOverdueMs: 5000,
  abortMs: 10_000,
  stopMs: 5000,
  turnMs: 60 * 60_000,
  permissionMs: 10_000,
};

export const BridgeConfig = z.object({
  sandboxId: OurId,
  /** `container`: root with few capabilities, slots have users of their own. `process`: no isolation at all. */
  isolation: z.enum(["container", "process"]),
  controllerSocket: AbsolutePath,
  modelSocket: AbsolutePath,
  tokenFile: AbsolutePath,
  /** The bridge's own state (its journal). */
  stateDirectory: AbsolutePath,
  /** One directory a slot is made in here. */
  slotsDirectory: AbsolutePath,
  /** Canonical working directory of every member. */
  workspace: AbsolutePath,
  /** Users of the slots: `firstUid` for slot 1, and one group for the workspace. Null without isolation. */
  users: z.nullable(
    z.object({
      firstUid: z.number().check(z.int(), z.positive()),
      gid: z.number().check(z.int(), z.positive()),
    }),
  ),
  /** The command of each CLI; a stand-in may take its place. `version` is what it must report. */
  clis: z.array(
    z.object({
      cli: CliName,
      version: z.string(),
      command: z.array(z.string().check(z.minLength(1))).check(z.minLength(1)),
    }),
  ),
  limits: DriverLimits,
});
export type BridgeConfig = z.infer<typeof BridgeConfig>;

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
