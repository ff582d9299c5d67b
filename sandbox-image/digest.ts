// SHA-256 of bytes, of files, and of a plain value in a canonical form. Pure but for reading the file named.

import { createHash, hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

export function sha256Of(bytes: Buffer | string): string {
  return hash("sha256", bytes, "hex");
}

export async function sha256OfFile(path: string): Promise<string> {
  const digest = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), digest);
  return digest.digest("hex");
}

/** Digest of a value of plain objects, arrays, strings and numbers; the order of an object's keys doesn't matter. */
export function digestOfValue(value: unknown): string {
  return sha256Of(JSON.stringify(value, (_key, inner: unknown) => (isPlain(inner) ? sorted(inner) : inner)));
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sorted(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}
