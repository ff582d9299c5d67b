/**
 * What a bridge that ended said last, as an error: the last line of its log is an object with a code (`bridge/main.ts`).
 * Only codes that say what is wrong with the sandbox's place are taken from there. Pure.
 */
import { clip, type ErrorCode, HoldfastError } from "../protocol/errors.ts";
import { parsedJson } from "./parsed-json.ts";

const TAKEN: ReadonlySet<unknown> = new Set<ErrorCode>(["DISK_FULL", "SANDBOX_UNFIT"]);

/** The fault that explains why no bridge connected, or the given one with the last line of the log. */
export function lastWords(fault: HoldfastError, log: string): HoldfastError {
  const line = log.trim().split("\n").at(-1) ?? "";
  if (line === "") return fault;
  const said = parsedJson(line) as { code?: unknown; error?: unknown } | null;
  if (said !== null && typeof said === "object" && TAKEN.has(said.code) && typeof said.error === "string")
    return new HoldfastError(said.code as ErrorCode, clip(said.error));
  return new HoldfastError(fault.code, `${fault.message}; its last words: ${clip(line)}`);
}
