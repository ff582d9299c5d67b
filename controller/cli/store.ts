/** `holdfast store backup|check`. Both work beside a controller that runs. */
import { join, resolve } from "node:path";
import { HoldfastError } from "../../protocol/errors.ts";
import { backupStore } from "../store/backup.ts";
import { checkStore } from "../store/check.ts";
import { STORE_FILE } from "../store/sqlite.ts";
import type { Command } from "./command.ts";
import type { Environment } from "./environment.ts";

export const storeBackup: Command = {
  name: "store backup",
  summary: "Copies the store while it is in use, whole and checked, into a new file.",
  usage: "FILE [--json]",
  options: {},
  words: { min: 1, max: 1 },
  async run({ words: [name = ""], environment, output }) {
    refuseDatabase(environment);
    const file = resolve(name);
    const beganMs = performance.now();
    let toldPercent = 0;
    output.progress(`copying the store in ${environment.storeDirectory}`);
    const { bytes } = await backupStore({
      directory: environment.storeDirectory,
      file,
      nowAt: () => Date.now(),
      onProgress(done, all) {
        const percent = Math.floor((100 * done) / Math.max(1, all));
        if (percent < toldPercent + 10) return;
        toldPercent = percent;
        output.progress(`${percent} % of ${all} pages`);
      },
    });
    const tookMs = Math.round(performance.now() - beganMs);
    if (output.isJson) output.json({ file, bytes, tookMs });
    else output.line(`${file}: ${bytes} bytes, checked, in ${tookMs} ms`);
    return 0;
  },
};

export const storeCheck: Command = {
  name: "store check",
  summary: "Checks the store, or a backup of it: the file, references, digests, states, counters, locators.",
  usage: "[FILE] [--json]",
  options: {},
  words: { min: 0, max: 1 },
  async run({ words: [name], environment, output }) {
    if (name === undefined) refuseDatabase(environment);
    const file = name === undefined ? join(environment.storeDirectory, STORE_FILE) : resolve(name);
    const found = checkStore(file, (what) => output.progress(`checking: ${what}`));
    const isOk = found.problemCount === 0;
    if (output.isJson) {
      output.json({ file, ok: isOk, ...found });
      return isOk ? 0 : 1;
    }
    for (const problem of found.problems) output.line(`!! ${problem}`);
    const more = found.problemCount - found.problems.length;
    if (more > 0) output.line(`!! and ${more} more`);
    const rows = Object.entries(found.rows).map(([what, count]) => `${count} ${what.replace("_", " ")}`);
    const kind = found.isBackup ? "a backup" : "a store";
    const seen = rows.length > 0 ? rows.join(", ") : "its records are read once it was brought up";
    output.line(`${file}: ${kind} of layout ${found.layout}; ${seen}`);
    output.line(isOk ? "no problem was found" : `${found.problemCount} problems`, "bold");
    return isOk ? 0 : 1;
  },
};

/** A database has tools of its own, and they see all of it. */
function refuseDatabase({ storeUrl }: Environment): void {
  if (storeUrl === null) return;
  throw new HoldfastError(
    "USAGE",
    "this is for a store in a folder: copy a PostgreSQL database with pg_dump, check it with pg_amcheck",
  );
}
