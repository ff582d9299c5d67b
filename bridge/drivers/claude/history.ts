/** Reads the transcript of a session in its slot, as the slot's user, and says what of a locator it does not bear out. */
import { HoldfastError } from "../../../protocol/errors.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { readSlotFile } from "../../slot-files.ts";
import type { Slot } from "../../slots.ts";
import { proveTail } from "./transcript.ts";

/** Bytes from the end that are read: what came behind the last settled turn is rarely more than the first. */
const READS_BYTES = [4 * 1024 * 1024, 128 * 1024 * 1024] as const;

/** Longer names are cut by the CLI, and a number is put behind them. */
const NAME_CHARS = 200;

/** Why the locator's session can't be continued, or null. Throws CLI_NOT_READY when the file can't be read. */
export async function missingHistory(
  slot: Slot,
  { nativeId, directory, tail }: Locator,
): Promise<string | null> {
  const path = transcriptPath(slot.home, directory, nativeId);
  for (const bytes of READS_BYTES) {
    const text = await readSlotFile(slot, path, bytes);
    if (text === null) return "the session's transcript is gone";
    if (tail === null) return null;
    const proof = proveTail(text, tail);
    if (proof.kind === "proven") return null;
    if (proof.kind === "on a dead branch")
      return "the last settled turn is on a branch that the CLI does not continue from";
    const isCut = Buffer.byteLength(text) >= bytes;
    if (proof.kind === "without its beginning") {
      if (!isCut) return "the history that the CLI loads lacks a part before the last settled turn";
      // Of what is larger than anybody reads the tail is all that is proven.
      if (bytes === READS_BYTES.at(-1)) return null;
    } else if (!isCut) return "the history lacks the last settled turn";
  }
  throw new HoldfastError("CLI_NOT_READY", "the transcript is too large to find the last settled turn in it");
}

/** Where the CLI keeps a session: by its working directory's spelling. */
export function transcriptPath(home: string, directory: string, session: string): string {
  return `${home}/.claude/projects/${directoryName(directory)}/${session}.jsonl`;
}

function directoryName(directory: string): string {
  const name = directory.replaceAll(/[^a-zA-Z0-9]/g, "-");
  return name.length <= NAME_CHARS ? name : `${name.slice(0, NAME_CHARS)}-${numberOf(directory)}`;
}

function numberOf(text: string): string {
  let number = 0;
  for (let at = 0; at < text.length; at += 1) number = ((number << 5) - number + text.charCodeAt(at)) | 0;
  return Math.abs(number).toString(36);
}
