/**
 * Copies native state from one slot into another, byte for byte: a child of the one slot's user reads it, a child of the
 * other's writes it, and only a pipe lies between them. So it works for a bridge without DAC capabilities, and neither
 * user reaches further than it could by itself.
 *
 * The copy is one moment's: the state is read a second time, and when its digest is another one, or something changed
 * while it was read, the copy is thrown away and made again. A database with its write-ahead log is so copied whole
 * beside a process that is at rest.
 */
import type { Clock } from "../protocol/clock.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { pipeFromSlot, runInSlot, type SlotCommand } from "./process.ts";
import type { Slot } from "./slots.ts";

/** One reading. Beyond, or beyond so many bytes: CLI_NOT_READY. */
const PASS_MS = 120_000;
const STATE_BYTES = 8 * 1024 * 1024 * 1024;
const TRIES = 3;
const WAIT_MS = 300;

/** `$1`: the slot, `$2`: the path in it; the rest are options of tar. Exit code 3 says that there is no such folder. */
const READ = `set -eu
slot=$1 path=$2
shift 2
[ -d "$slot/$path" ] && [ ! -L "$slot/$path" ] || exit 3
exec tar --create --file=- --sort=name --numeric-owner "$@" --directory="$slot" -- "$path"`;

/** Only what was asked for is taken out of the archive, whatever is in it, and nobody else may read it. */
const WRITE = `set -eu
umask 077
exec tar --extract --file=- --no-same-owner --no-same-permissions --directory="$1" -- "$2"`;

/** Tar's words for it, in the locale in which it is run; of a file that fits in part it says only that (measured). */
const NO_SPACE = /No space left on device|Disk quota exceeded|Wrote only \d+ of \d+ bytes/;

const CLEAR = `rm -rf -- "$1/$2"`;

export interface SlotCopy {
  from: Slot;
  to: Slot;
  /** A folder, relative to the slot. */
  path: string;
  /** Patterns of tar: names that are left out. */
  except: readonly string[];
  clock: Clock;
}

/**
 * What stood at this path in the slot `to` is replaced. Throws CONTEXT_LOST when there is nothing to copy, MEMBER_BUSY
 * when it does not hold still, DISK_FULL, CLI_NOT_READY when it can't be read or written.
 */
export async function copySlotState({ from, to, path, except, clock }: SlotCopy): Promise<void> {
  const options = except.map((pattern) => `--exclude=${pattern}`);
  const source: SlotCommand = {
    slot: from,
    command: ["/bin/sh", "-c", READ, "sh", from.root, path, ...options],
  };
  const sink: SlotCommand = { slot: to, command: ["/bin/sh", "-c", WRITE, "sh", to.root, path] };
  const limits = { limitMs: PASS_MS, maxBytes: STATE_BYTES };
  for (let tries = 1; tries <= TRIES; tries += 1) {
    await clear(to, path);
    const copied = await pipeFromSlot(source, sink, limits);
    if (copied.source.code === 3)
      throw new HoldfastError("CONTEXT_LOST", "the native state of the member is not there");
    // First: a reader whose writer has ended fails too, by its closed pipe.
    if (copied.sink !== null && NO_SPACE.test(copied.sink.said)) {
      await clear(to, path);
      throw new HoldfastError("DISK_FULL", "the native state can't be copied: the disk is full");
    }
    checkRead(copied.source);
    if (copied.source.code === 0) {
      checkWritten(copied.sink);
      const again = await pipeFromSlot(source, null, limits);
      checkRead(again.source);
      if (again.source.code === 0 && again.sha256 === copied.sha256) return;
    }
    await new Promise<void>((resolve) => clock.after(WAIT_MS, resolve));
  }
  await clear(to, path);
  throw new HoldfastError("MEMBER_BUSY", "the member's native state does not hold still");
}

/** Tar's 1: something changed while it was read. */
function checkRead(source: Ended): void {
  if (source.code !== 0 && source.code !== 1) throw failed("the native state can't be read", source);
}

function checkWritten(sink: Ended | null): void {
  if (sink?.code !== 0) throw failed("the native state can't be written", sink);
}

/** Its user alone can. */
async function clear(slot: Slot, path: string): Promise<void> {
  const command = ["/bin/sh", "-c", CLEAR, "sh", slot.root, path] as const;
  const ended = await runInSlot(slot, command, { input: "", maxBytes: 65_536, limitMs: PASS_MS });
  if (ended.code !== 0) throw failed("the new slot can't be cleared", { ...ended, said: ended.stderr });
}

interface Ended {
  code: number | null;
  said: string;
}

function failed(what: string, ended: Ended | null): HoldfastError {
  const said = ended?.said.slice(-200).trim() ?? "";
  return new HoldfastError("CLI_NOT_READY", `${what} (code ${ended?.code ?? null}): ${said}`);
}
