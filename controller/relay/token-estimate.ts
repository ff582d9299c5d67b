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
  return Math.ceil(value === undefined ? ofText(text) : ofValue(value, ""));
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

/** Everything that is said, names of fields included: tools are texts to a model as well. */
function ofValue(value: unknown, key: string): number {
  if (typeof value === "string") {
    const isMedia =
      /^data:[\w.+/-]*;base64,/.test(value) || (MEDIA_KEYS.has(key) && value.length > MEDIA_TOKENS);
    return isMedia ? MEDIA_TOKENS : ofText(value);
  }
  if (Array.isArray(value)) {
    const own = key === "messages" || key === "input" ? MESSAGE_TOKENS * value.length : 0;
    return value.reduce((sum: number, each: unknown) => sum + ofValue(each, ""), own);
  }
  if (typeof value === "object" && value !== null)
    return Object.entries(value).reduce((sum, [name, each]) => sum + ofText(name) + ofValue(each, name), 0);
  return 1;
}
