/**
 * Reads the one file of a tar that the engine's archive call returns. A link, or anything but one plain file, is
 * refused: what stands at the path is measured, not what it points to. Pure.
 */
import { HoldfastError } from "../../protocol/errors.ts";

const BLOCK = 512;

/** The file's bytes. Throws ENGINE_ERROR with the reason. */
export function plainFileOf(tar: Buffer): Buffer {
  let at = 0;
  // A pax header may come first (for long names or exact times); it says nothing about the bytes.
  for (;;) {
    if (at + BLOCK > tar.length) throw unusable("it holds no file");
    const type = String.fromCharCode(tar[at + 156] ?? 0);
    const size = Number.parseInt(
      tar
        .toString("latin1", at + 124, at + 136)
        .replace(/\0.*$/, "")
        .trim(),
      8,
    );
    if (!Number.isSafeInteger(size) || size < 0) throw unusable("its size can't be read");
    const from = at + BLOCK;
    if (type === "x" || type === "g") {
      at = from + Math.ceil(size / BLOCK) * BLOCK;
      continue;
    }
    if (type !== "0" && type !== "\0") throw unusable(`it is no plain file (tar type ${type})`);
    if (from + size > tar.length) throw unusable("it is cut");
    const rest = tar.subarray(from + Math.ceil(size / BLOCK) * BLOCK);
    if (!rest.equals(Buffer.alloc(rest.length))) throw unusable("it holds more than one file");
    return tar.subarray(from, from + size);
  }
}

function unusable(why: string): HoldfastError {
  return new HoldfastError("ENGINE_ERROR", `the measured file is refused: ${why}`);
}
