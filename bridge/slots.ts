/**
 * A slot: a member's place in the sandbox. Makes its directories and says who its processes are.
 *
 *   <slots>/<member>/          0700, the slot's user
 *     home/  data/  config/  state/  cache/  tmp/
 */
import { chmod, chown, mkdir, readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { BridgeConfig } from "../protocol/bridge-config.ts";
import type { Clock } from "../protocol/clock.ts";
import { HoldfastError, storageFault } from "../protocol/errors.ts";
import { type ProcessEntry, reapSlot, type SlotMark } from "./census.ts";

/** Every process of a slot carries this variable with store, sandbox and member; the mark where slots have no user. */
export const SLOT_VARIABLE = "HOLDFAST_SLOT";

export interface Slot {
  member: string;
  root: string;
  home: string;
  data: string;
  config: string;
  state: string;
  cache: string;
  /** Canonical working directory. */
  workspace: string;
  user: { uid: number; gid: number } | null;
  mark: SlotMark;
  /** Value of {@link SLOT_VARIABLE}. */
  markValue: string;
}

/** In the slot, for temporary files: in a shared folder another member could read them, or put its own there first. */
export const TEMPORARY = "tmp";

const DIRECTORIES = ["home", "data", "config", "state", "cache", TEMPORARY] as const;

/** Slots are made one after the other: two at once would be given the same user. */
let lastOpening: Promise<unknown> = Promise.resolve();

/**
 * Makes the slot of a member, or finds it as it was, with the user that owns it. The order mkdir, chmod, chown matters:
 * after the chown a root without DAC capabilities can't change or list it any more. The slot's own directory is given
 * away last: one that still is root's was left half made by a crash.
 */
export function openSlot(config: BridgeConfig, member: string): Promise<Slot> {
  const opening = lastOpening.then(() => findOrMake(config, member));
  lastOpening = opening.catch(() => undefined /* its caller is told */);
  return opening;
}

async function findOrMake(config: BridgeConfig, member: string): Promise<Slot> {
  const root = join(config.slotsDirectory, member);
  const owner = await ownerOf(root);
  const { users } = config;
  const isMade = owner !== null && users !== null && owner >= users.firstUid;
  const user = users === null ? null : { uid: isMade ? owner : await freeUid(config), gid: users.gid };
  if (!isMade) await makeSlot(root, user);
  const markValue = markValueOf(config, member);
  return {
    member,
    root,
    home: join(root, "home"),
    data: join(root, "data"),
    config: join(root, "config"),
    state: join(root, "state"),
    cache: join(root, "cache"),
    workspace: await realpath(config.workspace),
    user,
    mark:
      user === null
        ? { kind: "environment", variable: SLOT_VARIABLE, value: markValue }
        : { kind: "uid", uid: user.uid },
    markValue,
  };
}

function markValueOf(config: BridgeConfig, member: string): string {
  return `${config.storeId}/${config.sandboxId}/${member}`;
}

/**
 * Ends what an earlier life of the bridge has left in the slots: its turns are lost, and must not go on unseen. In a
 * container nothing can be left, since its end takes every process along. Returns what could not be ended.
 */
export async function reapSlots(config: BridgeConfig, clock: Clock): Promise<ProcessEntry[]> {
  if (config.isolation === "container") return [];
  const left: ProcessEntry[] = [];
  for (const member of await membersIn(config.slotsDirectory)) {
    const mark: SlotMark = {
      kind: "environment",
      variable: SLOT_VARIABLE,
      value: markValueOf(config, member),
    };
    left.push(...(await reapSlot(mark, clock, config.limits.stopMs)));
  }
  return left;
}

/** Before the first slot there may be no directory. */
async function membersIn(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw new HoldfastError("CLI_NOT_READY", "the slots can't be listed", { cause: error });
  }
}

async function makeSlot(root: string, user: Slot["user"]): Promise<void> {
  try {
    await mkdir(root, { recursive: true, mode: 0o700 });
    await chmod(root, 0o700);
    for (const name of DIRECTORIES) {
      const path = join(root, name);
      await mkdir(path, { recursive: true, mode: 0o700 });
      if (user !== null) await chown(path, user.uid, user.gid);
    }
    if (user !== null) await chown(root, user.uid, user.gid);
  } catch (cause) {
    const fault = storageFault("the slot's directories can't be made", cause);
    throw fault.code === "DISK_FULL" ? fault : new HoldfastError("CLI_NOT_READY", fault.message, { cause });
  }
}

/** Who owns the slot's directory; null when there is none. */
async function ownerOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).uid;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw new HoldfastError("CLI_NOT_READY", "the slot's directory can't be looked at", { cause: error });
  }
}

/** One above the highest user that owns a slot: a user is never given to a second member. Throws OVERLOADED. */
async function freeUid(config: BridgeConfig): Promise<number> {
  let highest = (config.users?.firstUid ?? 0) - 1;
  for (const name of await membersIn(config.slotsDirectory)) {
    highest = Math.max(highest, (await ownerOf(join(config.slotsDirectory, name))) ?? 0);
  }
  const lastUid = config.users?.lastUid ?? Number.POSITIVE_INFINITY;
  if (highest < lastUid) return highest + 1;
  throw new HoldfastError("OVERLOADED", `the sandbox has no user left for a member (up to ${lastUid})`);
}
