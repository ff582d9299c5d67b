/**
 * Reads a thread's record from the slot, as its user and in pieces: it may be large, and a bridge without DAC
 * capabilities can't open it. The first cause of an end wins; nothing of the file is kept.
 */
import { HoldfastError } from "../../../protocol/errors.ts";
import { runInSlot } from "../../process.ts";
import type { Slot } from "../../slots.ts";
import { createLineSplitter } from "../stdio/line-splitter.ts";

const PIECE_BYTES = 8 * 1024 * 1024;
/** A record beyond this is not read, and proves nothing. */
const RECORD_BYTES = 1024 * 1024 * 1024;
const LIMIT_MS = 10_000;

/** Exit code 3 says that there is no such file. */
const SIZE = 'set -eu; [ -f "$1" ] || exit 3; wc -c <"$1"';
/** Every byte beyond ASCII becomes a `?`: a piece then has as many characters as bytes, wherever it is cut. */
const PIECE = 'set -eu; tail -c "+$2" -- "$1" | head -c "$3" | LC_ALL=C tr \'\\200-\\377\' \'?\'';

/**
 * Hands over each line, in order. False when there is no such file. Throws CLI_REFUSED when it can't be read.
 * @param endByte what comes behind is not read; null for the whole file
 * @param pieceBytes read at once
 */
export async function readRecord(
  slot: Slot,
  path: string,
  onLine: (line: string) => void,
  endByte: number | null = null,
  pieceBytes: number = PIECE_BYTES,
): Promise<boolean> {
  const size = await run(slot, [SIZE, "sh", path], 1024);
  if (size.code === 3) return false;
  if (size.code !== 0) throw unreadable(size);
  const all = Number(size.stdout.trim());
  if (!(all <= RECORD_BYTES))
    throw new HoldfastError("CLI_REFUSED", `the CLI's record exceeds ${RECORD_BYTES} bytes`);
  const bytes = endByte === null ? all : Math.min(all, endByte);
  const splitter = createLineSplitter();
  for (let from = 0; from < bytes; from += pieceBytes) {
    const args = [PIECE, "sh", path, String(from + 1), String(Math.min(pieceBytes, bytes - from))];
    const piece = await run(slot, args, pieceBytes + 1024);
    if (piece.code !== 0) throw unreadable(piece);
    splitter.feed(Buffer.from(piece.stdout, "latin1"), onLine);
  }
  onLine(splitter.rest());
  return true;
}

function run(slot: Slot, args: readonly string[], maxBytes: number) {
  return runInSlot(slot, ["/bin/sh", "-c", ...args], { input: "", maxBytes, limitMs: LIMIT_MS });
}

function unreadable({ code, isLate, stderr }: Awaited<ReturnType<typeof run>>): HoldfastError {
  const why = isLate ? `within ${LIMIT_MS} ms` : `(code ${code})`;
  return new HoldfastError("CLI_REFUSED", `the CLI's record can't be read ${why}: ${stderr.slice(-200)}`);
}
