/**
 * Ids in the native format: a prefix, 12 hex digits of (milliseconds x 4096 + counter) modulo 2^48, 14 base-62
 * characters. Kilo orders history by them, so each must be greater than the newest one in history. Pure but for chance.
 */
import { randomBytes } from "node:crypto";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Makes ids that rise, also when the clock stands still or goes back. */
export function createNativeIds(nowAt: () => number): (prefix: "msg" | "prt") => string {
  let last = 0n;
  return (prefix) => {
    const byClock = BigInt(Math.floor(nowAt())) * 4096n;
    last = byClock > last ? byClock : last + 1n;
    const time = (last % 2n ** 48n).toString(16).padStart(12, "0");
    // A remainder of 256 by 62 favours some characters a little; uniqueness is all that is asked of them.
    const tail = [...randomBytes(14)].map((byte) => ALPHABET[byte % 62]).join("");
    return `${prefix}_${time}${tail}`;
  };
}
