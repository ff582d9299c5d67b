/**
 * Bytes -> lines. Fed and returning; knows no pipe. Split at `\n` alone: U+2028, U+2029 and U+0085 are legal inside JSON,
 * and readers that split there break it. Bytes are joined before they are decoded, so no character is cut by a chunk
 * (public case P25). What is held of an unfinished line is one buffer that doubles: neither many small chunks nor a long
 * line cost more than twice the line's bytes (P27).
 */
import { HoldfastError } from "../../../protocol/errors.ts";

/** One line without its `\n`, in bytes. Beyond: FRAME_TOO_LARGE, and the splitter takes nothing more. */
export const LINE_BYTES = 32 * 1024 * 1024;

const LINE_FEED = 0x0a;
/** First size of the buffer, and the largest that is kept when its line is done. */
const KEPT_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

export interface LineSplitter {
  /**
   * Hands over each line that this chunk completed, in order, without its `\n` and one `\r` before it. The chunk may be
   * used again afterwards. Throws FRAME_TOO_LARGE when the lines before the one that is too large have been handed over.
   */
  feed(chunk: Uint8Array, onLine: (line: string) => void): void;
  /** What came behind the last `\n`, once; "" when there is nothing. */
  rest(): string;
  /** Bytes that are held of an unfinished line. */
  heldBytes(): number;
}

export function createLineSplitter(limitBytes: number = LINE_BYTES): LineSplitter {
  let held = NOTHING;
  let heldBytes = 0;
  let failure: HoldfastError | null = null;

  function checkSize(moreBytes: number): void {
    if (heldBytes + moreBytes <= limitBytes) return;
    held = NOTHING;
    heldBytes = 0;
    failure = new HoldfastError("FRAME_TOO_LARGE", `frame too large: a line exceeds ${limitBytes} bytes`);
    throw failure;
  }

  function hold(piece: Uint8Array): void {
    checkSize(piece.length);
    const neededBytes = heldBytes + piece.length;
    if (neededBytes > held.length) {
      const larger = Buffer.allocUnsafe(
        Math.max(neededBytes, Math.min(2 * held.length, limitBytes), KEPT_BYTES),
      );
      larger.set(held.subarray(0, heldBytes));
      held = larger;
    }
    held.set(piece, heldBytes);
    heldBytes = neededBytes;
  }

  function take(): string {
    const line = textOf(held.subarray(0, heldBytes));
    heldBytes = 0;
    if (held.length > KEPT_BYTES) held = NOTHING;
    return line;
  }

  return {
    feed(chunk, onLine) {
      if (failure !== null) throw failure;
      let from = 0;
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
        const piece = chunk.subarray(from, at);
        from = at + 1;
        if (heldBytes === 0) {
          checkSize(piece.length);
          onLine(textOf(piece));
        } else {
          hold(piece);
          onLine(take());
        }
      }
      if (from < chunk.length) hold(chunk.subarray(from));
    },
    rest: take,
    heldBytes: () => heldBytes,
  };
}

function textOf(bytes: Uint8Array): string {
  const line = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}
