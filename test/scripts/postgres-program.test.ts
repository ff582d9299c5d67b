import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { postgresFolder } from "../../scripts/postgres-program.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

function version(folder: string, name: string, programs: readonly string[], mode = 0o755): string {
  const bin = join(folder, name, "bin");
  mkdirSync(bin, { recursive: true });
  for (const program of programs) writeFileSync(join(bin, program), "", { mode });
  return bin;
}

test("the newest version that has a server is taken, by number and not by letter", () => {
  const folder = temporaryDirectory();
  version(folder, "9", ["postgres", "initdb"]);
  const newest = version(folder, "15", ["postgres", "initdb"]);
  // A client of a newer version is no server, and neither is a file that can't be run.
  version(folder, "16", ["psql"]);
  version(folder, "17", ["postgres", "initdb"], 0o644);
  expect(postgresFolder(folder)).toBe(newest);
});
