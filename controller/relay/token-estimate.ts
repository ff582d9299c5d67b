/**
 * How many tokens a request's body may be, before anybody has counted them: too many rather than too few. Pure. A third of
 * a token for each ASCII character, 2 for any other one, 16 more for each message, 4096 for an image or a file.
 */
import { parsedJson } from "../parsed-json.ts";

const MESSAGE_TOKENS = 16;
const MEDIA_TOKENS = 4096;
/** Keys whose text is an encoded file, and of which the prefix of a data URL tells the same. */
const MEDIA_KEYS: ReadonlySet<string> = new Set(["data", "file_data"]);

/** @param body as it came; one that is no JSON is taken as text */
export function estimateTokens(body: Buffer): number {
  const text = body.toString("utf8");
  const value = parsedJson(text);
  // Nothing is asked for nothing.
  return Math.max(1, Math.ceil(value === undefined ? ofText(text) : ofValue(value)));
}

/** A request of which the provider has counted the input, and what was estimated for it. */
export interface CountedInput {
  estimate: number;
  input: number;
}

/**
 * An estimate, corrected by the request before it in its chain, of a history that only grew: what is common counts as it was
 * counted, times 1.1, and what was appended as it is estimated.
 * @param before null: there is none, or this request does not begin with all of it
 */
export function calibrated(estimate: number, before: CountedInput | null): number {
  if (before === null || estimate < before.estimate) return estimate;
  return Math.ceil((before.input * 11) / 10) + (estimate - before.estimate);
}

function ofText(text: string): number {
  let others = 0;
  let chars = 0;
  for (const char of text) {
    chars += 1;
    if ((char.codePointAt(0) ?? 0) > 127) others += 1;
  }
  return (chars - others) / 3 + 2 * others;
}

/** Everything that is said, names of fields included: tools are texts to a model as well. Not recursive: it may nest deep. */
function ofValue(whole: unknown): number {
  const open: Array<{ key: string; value: unknown }> = [{ key: "", value: whole }];
  let tokens = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { key, value } = next;
    if (typeof value === "string") tokens += ofString(key, value);
    else if (Array.isArray(value)) {
      if (key === "messages" || key === "input") tokens += MESSAGE_TOKENS * value.length;
      for (const each of value as unknown[]) open.push({ key: "", value: each });
    } else if (typeof value === "object" && value !== null) {
      for (const [name, each] of Object.entries(value)) {
        tokens += ofText(name);
        open.push({ key: name, value: each });
      }
    } else tokens += 1;
  }
  return tokens;
}

function ofString(key: string, value: string): number {
  const isMedia =
    /^data:[\w.+/-]*;base64,/.test(value) || (MEDIA_KEYS.has(key) && value.length > MEDIA_TOKENS);
  return isMedia ? MEDIA_TOKENS : ofText(value);
}
