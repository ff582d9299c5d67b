/** What a call of a pi tool acts on, as the patterns of a permission request. Pure. */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

const UNICODE_SPACES = /[\u00A0\u2000-\u200A\u202F\u205F\u3000]/g;

/**
 * The command of `bash`, whole; the absolute path of a tool that names one, so that no rule is walked around with `..`
 * or `~`; nothing for a tool that names neither (judged as `*`). Throws for a path that can't be read as one: pi blocks
 * a call whose hook fails.
 */
export function actsOn(input: Readonly<Record<string, unknown>>, cwd: string, home: string): string[] {
  const { command, path } = input;
  if (typeof command === "string") return [command];
  if (typeof path === "string") return [absolute(path, cwd, home)];
  return [];
}

/** As pi's own tools read a path (1.6.0, core/tools/path-utils.js and utils/paths.js). */
function absolute(path: string, cwd: string, home: string): string {
  const spaced = path.replace(UNICODE_SPACES, " ");
  const plain = spaced.startsWith("@") ? spaced.slice(1) : spaced;
  if (plain === "~") return home;
  if (plain.startsWith("~/")) return resolve(home, plain.slice(2));
  return resolve(cwd, plain.startsWith("file://") ? fileURLToPath(plain) : plain);
}
