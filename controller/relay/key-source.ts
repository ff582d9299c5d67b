/**
 * Where a route's key comes from: the text itself, a file that only its owner may read, or a variable of the controller's
 * own environment. Never argv, which every process can see; and never told, whatever is wrong with it.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { HoldfastError } from "../../protocol/errors.ts";

/** Null for a model that needs no key. */
export type KeySource = string | null | { file: string } | { variable: string };

/** Throws REQUEST_INVALID that names the source, not what is in it. */
export function readKey(source: KeySource, variables: Readonly<NodeJS.ProcessEnv>): string | null {
  if (source === null) return null;
  if (typeof source === "string") return checkedKey(source, "the model's key");
  if ("file" in source) return checkedKey(readKeyFile(source.file), `the key file ${source.file}`);
  const value = variables[source.variable]?.trim() ?? "";
  if (value === "") throw invalid(`the variable ${source.variable}, which is to hold the key, is not set`);
  return checkedKey(value, `the key in the variable ${source.variable}`);
}

function readKeyFile(path: string): string {
  const refuse = (why: string, cause?: unknown) => invalid(`the key file ${path} ${why}`, cause);
  if (!existsSync(path)) throw refuse("does not exist");
  let key: string;
  try {
    if ((statSync(path).mode & 0o077) !== 0) throw refuse("can be read by others: chmod 600 it");
    key = readFileSync(path, "utf8").trim();
  } catch (error) {
    throw error instanceof HoldfastError ? error : refuse("can't be read", error);
  }
  if (key === "") throw refuse("is empty");
  return key;
}

/** What a header can carry; two words are no key, and a binary file is none. */
function checkedKey(key: string, what: string): string {
  if (!/^[!-~]+$/.test(key)) throw invalid(`${what} holds no single key that a header can carry`);
  return key;
}

function invalid(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError("REQUEST_INVALID", message, { cause });
}
