/** Ids on the wire, and the rules that make them safe to use in paths, labels and logs. */
import * as z from "zod/mini";

const SAFE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** Ids that we give: sandboxes, members, turns. At most 128 characters of a set that is safe in a path. */
export const OurId = z.string().check(z.regex(SAFE));

/** Ids that a CLI gave. Untrusted: bounded, no control characters, never used as a path. */
export const NativeId = z.string().check(z.minLength(1), z.maxLength(256), z.regex(/^[!-~\u00a0-\uffff]+$/));

/** A whole number that counts something: sequence numbers, generations, epochs. */
export const Count = z.number().check(z.int(), z.nonnegative());

/** Epoch milliseconds. */
export const Instant = z.number().check(z.nonnegative());

/** SHA-256 in lower-case hex. */
export const Digest = z.string().check(z.regex(/^[0-9a-f]{64}$/));
