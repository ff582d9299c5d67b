/**
 * The bridge's configuration: written by the controller, read by the bridge. One JSON file in the directory that is
 * mounted read-only into the container.
 */
import * as z from "zod/mini";
import { OurId } from "./ids.ts";
import { CliName } from "./locator.ts";

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
  /** The replies to one request of the CLI (permission, question), tries and confirmation together. */
  permissionMs: LimitMs,
  /** How long a native question waits for the user. Beyond: it is rejected natively, and the record says so. */
  questionMs: LimitMs,
  /** From the first wait for the provider to the next sign of progress. Heartbeats do not extend it. */
  providerWaitMs: LimitMs,
  /** A canary goes out on a live subscription this often, to find one that delivers bytes and no events. */
  canaryEveryMs: LimitMs,
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
  questionMs: 10 * 60_000,
  providerWaitMs: 5 * 60_000,
  canaryEveryMs: 30_000,
};

export const BridgeConfig = z.object({
  /** Of the store that the sandbox belongs to: ids of sandboxes are unique in their store alone. */
  storeId: OurId,
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
  /**
   * Users of the slots: `firstUid` for slot 1, none above `lastUid` (default: no end), and one group for the workspace.
   * Null without isolation.
   */
  users: z.nullable(
    z.object({
      firstUid: z.number().check(z.int(), z.positive()),
      lastUid: z.optional(z.number().check(z.int(), z.positive())),
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
