/** What the relay lets one call take, by name; and how long it listens on behind a client that has gone. */
import { HoldfastError } from "../../protocol/errors.ts";

export interface RelayLimits {
  /** Of the request line and headers, and of an answer's headers, bytes. Default 64 KiB. */
  headerBytes: number;
  /** Of a request's body, bytes. Default 64 MiB: the largest that a provider takes is half of that. */
  requestBytes: number;
  /** Of an answer's body, bytes. Default 256 MiB. */
  answerBytes: number;
  /** Without a byte in either direction, ms. Default 15 min: a model that thinks and does not stream is silent. */
  idleMs: number;
  /** Of the whole call, ms. Default 1 h. */
  totalMs: number;
  /**
   * How long the provider is listened to for its usage after the client has gone, ms; nothing of it is passed on. Default
   * 1000, at most 60000, and 0 closes at once. After a revoke nothing is listened to.
   */
  drainMs: number;
}

export const RELAY_DEFAULTS: Readonly<RelayLimits> = {
  headerBytes: 64 * 1024,
  requestBytes: 64 * 1024 * 1024,
  answerBytes: 256 * 1024 * 1024,
  idleMs: 15 * 60_000,
  totalMs: 60 * 60_000,
  drainMs: 1000,
};

/** The longest of a timer of the host; nothing needs more. */
const LONGEST_MS = 2 ** 31 - 1;
const RANGES: Readonly<Record<keyof RelayLimits, readonly [least: number, most: number]>> = {
  headerBytes: [1024, 1024 * 1024],
  requestBytes: [1024, 2 ** 31 - 1],
  answerBytes: [1024, Number.MAX_SAFE_INTEGER],
  idleMs: [1, LONGEST_MS],
  totalMs: [1, LONGEST_MS],
  drainMs: [0, 60_000],
};

/** The limits with their defaults. Throws REQUEST_INVALID that names the one that is out of its range. */
export function checkedLimits(given: Partial<RelayLimits> = {}): RelayLimits {
  const limits = { ...RELAY_DEFAULTS, ...given };
  for (const name of Object.keys(RANGES) as Array<keyof RelayLimits>) {
    const [least, most] = RANGES[name];
    if (!Number.isInteger(limits[name]) || limits[name] < least || limits[name] > most)
      throw new HoldfastError("REQUEST_INVALID", `the relay's ${name} must be from ${least} to ${most}`);
  }
  return limits;
}
