/**
 * Files in a slot, read and written by a short-lived child of the slot's own user: a bridge without DAC capabilities can
 * do neither itself, and a link that the slot's user has planted leads to nothing that this user could not reach anyway.
 * Bounded in bytes and time; a path is an argument, never part of a script, and a content is stdin, never an argument.
 */
import { isAbsolute } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";
import { runInSlot } from "./process.ts";
import type { Slot } from "./slots.ts";

const LIMIT_MS = 10_000;
/** What the scripts print themselves: error texts. Beyond: a failure. */
const SAID_BYTES = 64 * 1024;

/**
 * Writes beside the file and renames: what reads it meanwhile sees the old one or the new one, whole, and so does what
 * comes after a kill. An own name of the slot in the way is removed (`rm`), never followed (`set -C`), and a directory
 * is not moved into (`-T`). A directory's name may end in a line feed, which `$(dirname)` would lose.
 */
const WRITE = `set -euC
umask 077
mkdir -p -- "\${1%/*}/"
rm -f -- "$1.new"
cat >"$1.new"
if [ -f "$1" ] && [ ! -L "$1" ] && cmp -s -- "$1" "$1.new"; then
  rm -- "$1.new"
  chmod 600 -- "$1"
else
  mv -fT -- "$1.new" "$1"
fi`;

/** Exit code 3 says that there is none, in the system's own words; everything else is a failure, and no proof of absence. */
const READ = `set -eu
if [ ! -f "$1" ]; then
  why=$(LC_ALL=C ls -dL -- "$1" 2>&1 >/dev/null) || case $why in *"No such file or directory" | *"Not a directory") exit 3 ;; esac
  echo "not a plain file \${why#ls: }" >&2
  exit 4
fi
exec tail -c "$2" -- "$1"`;

/**
 * Puts a file into the slot with this content, owner-only; its directories are made. A file that has this content already
 * is left as it is. Throws CLI_NOT_READY.
 * @param path absolute
 */
export async function writeSlotFile(slot: Slot, path: string, content: string): Promise<void> {
  const result = await run(slot, WRITE, [path], content, SAID_BYTES);
  if (result.code !== 0) throw failed("a file of the slot can't be written", result);
}

/**
 * The last bytes of a file in the slot; null when there is no such file. Throws CLI_NOT_READY when it can't be read, and
 * when nobody can say whether it is there.
 * @param path absolute
 * @param lastBytes at most so many, from the end; the first line, and its first character, may then be cut
 */
export async function readSlotFile(slot: Slot, path: string, lastBytes: number): Promise<string | null> {
  const result = await run(slot, READ, [path, String(lastBytes)], "", lastBytes + SAID_BYTES);
  if (result.code === 3) return null;
  if (result.code !== 0) throw failed("a file of the slot can't be read", result);
  return result.stdout;
}

function run(
  slot: Slot,
  script: string,
  args: readonly [string, ...string[]],
  input: string,
  maxBytes: number,
) {
  if (!isAbsolute(args[0])) throw new TypeError(`a slot's file needs an absolute path, not ${args[0]}`);
  return runInSlot(slot, ["/bin/sh", "-c", script, "sh", ...args], { input, maxBytes, limitMs: LIMIT_MS });
}

function failed(what: string, { code, isLate, stderr }: Awaited<ReturnType<typeof run>>): HoldfastError {
  const why = isLate ? `within ${LIMIT_MS} ms` : `(code ${code})`;
  return new HoldfastError("CLI_NOT_READY", `${what} ${why}: ${stderr.slice(-200).trim()}`);
}
