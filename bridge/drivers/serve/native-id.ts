/**
 * Ids in the native format: a prefix, 12 hex digits of (milliseconds x 4096 + counter) modulo 2^48, 14 base-62
 * characters. Kilo orders history by them, so each must be greater than the newest one in history, and a newest one that
 * lies in the future (a clock that was set back) would hide every later turn. Pure but for chance.
 */
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../../../protocol/errors.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const MODULUS = 2n ** 48n;
/** How far ahead the newest native id may lie: clocks are read at different moments, and ids of one ms are counted up. */
const AHEAD_MS = 2000n;

export interface NativeIds {
  /** Rises, also when the clock stands still or goes back. */
  next(prefix: "msg" | "prt"): string;
  /** An id that the CLI gave; ours will be greater. Other formats are passed over. */
  saw(id: string): void;
  /** Throws CLOCK_BEHIND when the newest id lies in the future, and history is ordered by ids. */
  check(): void;
}

export function createNativeIds(nowAt: () => number, ordersById: boolean): NativeIds {
  /** In units of 1/4096 ms, not reduced. */
  let last = 0n;
  const now = () => BigInt(Math.floor(nowAt())) * 4096n;

  return {
    next(prefix) {
      const byClock = now();
      last = byClock > last ? byClock : last + 1n;
      const time = (last % MODULUS).toString(16).padStart(12, "0");
      // A remainder of 256 by 62 favours some characters a little; uniqueness is all that is asked of them.
      const tail = [...randomBytes(14)].map((byte) => ALPHABET[byte % 62]).join("");
      return `${prefix}_${time}${tail}`;
    },
    saw(id) {
      const time = id.match(/^[a-z]+_([0-9a-f]{12})[0-9A-Za-z]{14}$/)?.[1];
      if (time === undefined) return;
      const seen = nearest(BigInt(`0x${time}`), now());
      if (seen > last) last = seen;
    },
    check() {
      if (!ordersById) return;
      const aheadMs = (last - now()) / 4096n;
      if (aheadMs <= AHEAD_MS) return;
      throw new HoldfastError(
        "CLOCK_BEHIND",
        `the newest message of the history is ${aheadMs} ms ahead of the clock`,
      );
    },
  };
}

/** The full value of a reduced one: the candidate next to now, since 48 bits wrap every two years. */
function nearest(reduced: bigint, now: bigint): bigint {
  const base = now - (now % MODULUS) + reduced;
  const candidates = [base - MODULUS, base, base + MODULUS];
  const distance = (value: bigint) => (value > now ? value - now : now - value);
  return candidates.reduce((best, value) => (distance(value) < distance(best) ? value : best));
}
