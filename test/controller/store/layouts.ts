// Stores of every layout that a version ever wrote, with data: the oldest from the file which that version's own store
// was written to, the later ones brought up to their number from it. A layout whose release has data of its own kind gets
// a file `layouts/layout-N.sql` of its own.
import { chmodSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { MIGRATIONS, migrate } from "../../../controller/store/migrations.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

export const LAYOUTS: readonly number[] = MIGRATIONS.map((_, at) => at + 1);

/** A folder with a store of that layout; nobody has opened it since. */
export function storeOfLayout(layout: number): string {
  const directory = join(temporaryDirectory(), "store");
  mkdirSync(directory, { mode: 0o700 });
  const path = join(directory, "holdfast.db");
  const database = new DatabaseSync(path);
  try {
    let from = layout;
    while (!existsSync(fileOf(from))) from -= 1;
    database.exec("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON");
    database.exec(readFileSync(fileOf(from), "utf8"));
    migrate(database, MIGRATIONS.slice(0, layout));
  } finally {
    database.close();
  }
  chmodSync(path, 0o600);
  return directory;
}

function fileOf(layout: number): string {
  return fileURLToPath(new URL(`layouts/layout-${layout}.sql`, import.meta.url));
}
