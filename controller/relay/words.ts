/** A provider's own words, where they are kept: short and plain, or not at all. Pure. */
import { plainId } from "./provider-id.ts";

const MODEL_CHARS = 200;

/** One plain word, such as a stop reason; null for anything longer or stranger. */
export function word(value: unknown): string | null {
  return plainId(value);
}

/** A model's name: visible characters, at most 200. Null for anything else. */
export function modelName(value: unknown): string | null {
  return typeof value === "string" && value.length <= MODEL_CHARS && /^[!-~]+$/.test(value) ? value : null;
}
