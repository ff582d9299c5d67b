/**
 * Bytes <-> frames. The only importer of msgpackr. Plain data only; sizes are capped before decoding, and every frame
 * is parsed by its schema here, at the door.
 */
import { Packr } from "msgpackr";
import { HoldfastError } from "./errors.ts";
import { Frame } from "./frame.ts";
import { LIMITS } from "./limits.ts";

// No records, no shared structures and no references: each message stands alone. Maps become objects, big integers
// numbers, and what is undefined becomes nil. Extension values that still come in are refused by the schemas.
const packr = new Packr({
  useRecords: false,
  mapsAsObjects: true,
  int64AsType: "number",
  moreTypes: false,
  structuredClone: false,
  encodeUndefinedAsNil: true,
});

/** One message: a batch of frames. Throws FRAME_TOO_LARGE beyond the caps; {@link encodeAll} splits instead. */
export function encode(frames: readonly Frame[]): Uint8Array {
  if (frames.length > LIMITS.framesPerMessage) throw tooLarge(`${frames.length} frames`);
  const bytes = packr.pack(frames) as Uint8Array;
  if (bytes.byteLength > LIMITS.messageBytes) throw tooLarge(`${bytes.byteLength} bytes`);
  return bytes;
}

/** Any number of frames as messages within both caps, in order. Throws FRAME_TOO_LARGE for a frame that fits in none. */
export function encodeAll(frames: readonly Frame[]): Uint8Array[] {
  return batches(frames).flatMap(halve);
}

function halve(batch: readonly Frame[]): Uint8Array[] {
  const bytes = packr.pack(batch) as Uint8Array;
  if (bytes.byteLength <= LIMITS.messageBytes) return [bytes];
  if (batch.length === 1) throw tooLarge(`${bytes.byteLength} bytes`);
  const middle = Math.ceil(batch.length / 2);
  return [...halve(batch.slice(0, middle)), ...halve(batch.slice(middle))];
}

/** The frames of one message. Throws FRAME_TOO_LARGE or FRAME_INVALID; never returns half of it. */
export function decode(bytes: Uint8Array): Frame[] {
  if (bytes.byteLength > LIMITS.messageBytes) throw tooLarge(`${bytes.byteLength} bytes`);
  let value: unknown;
  try {
    value = packr.unpack(bytes);
  } catch (cause) {
    throw new HoldfastError("FRAME_INVALID", "the message is not msgpack", { cause });
  }
  if (!Array.isArray(value)) throw new HoldfastError("FRAME_INVALID", "a message is a list of frames");
  if (value.length > LIMITS.framesPerMessage) throw tooLarge(`${value.length} frames`);
  return value.map(parseFrame);
}

function parseFrame(value: unknown): Frame {
  const parsed = Frame.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined ? "" : ` at ${issue.path.join(".") || "kind"}`;
  throw new HoldfastError("FRAME_INVALID", `a frame does not fit its schema${where}`);
}

function tooLarge(what: string): HoldfastError {
  return new HoldfastError("FRAME_TOO_LARGE", `a message of ${what} exceeds the limit`);
}

/** Cuts a list of frames into batches that fit one message by count; {@link encodeAll} looks at their bytes too. */
export function batches(frames: readonly Frame[], size: number = LIMITS.framesPerMessage): Frame[][] {
  const cut: Frame[][] = [];
  for (let at = 0; at < frames.length; at += size) cut.push(frames.slice(at, at + size));
  return cut;
}
