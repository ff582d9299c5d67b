/**
 * Which ids of a provider are kept, for whoever asks the provider about a call. Pure. They are the provider's words, so
 * that only what looks like an id passes: nothing that could be a text, an address or a key.
 */

const SAFE = /^[A-Za-z0-9_.:-]{1,128}$/;
const OF_ANSWERS = /^(?:resp_|chatcmpl-|msg_)/;

/** The id of an answer (`resp_…`, `chatcmpl-…`, `msg_…`), or null. */
export function answerId(value: unknown): string | null {
  return typeof value === "string" && SAFE.test(value) && OF_ANSWERS.test(value) ? value : null;
}

/** An id that a header or a request names, or null for what is no plain id of at most 128 characters. */
export function plainId(value: unknown): string | null {
  return typeof value === "string" && SAFE.test(value) ? value : null;
}
