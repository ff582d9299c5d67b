import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, test } from "vitest";
import { checkStore } from "../../../controller/store/check.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { LAYOUTS, storeOfLayout } from "./layouts.ts";
import { simpleRig } from "./rig.ts";

const failed = (code: string) => expect.objectContaining({ code });
const fileIn = (directory: string) => join(directory, "holdfast.db");

test("a store is looked over beside its owner, step by step, and left as it is", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  const steps: string[] = [];
  const before = readFileSync(fileIn(rig.directory));
  const found = checkStore(fileIn(rig.directory), (what) => steps.push(what));
  expect(found).toMatchObject({ problems: [], problemCount: 0, isBackup: false });
  expect(found.rows).toMatchObject({ sandboxes: 1, members: 1, turns: 1 });
  expect(steps.slice(0, 2)).toEqual(["the file", "references"]);
  expect(readFileSync(fileIn(rig.directory))).toEqual(before);
  rig.member("m-2");
  rig.admit("t-2", "m-2");
});

test("a reference to what is not there is a problem", () => {
  const rig = simpleRig();
  const database = new DatabaseSync(fileIn(rig.directory));
  database.exec("PRAGMA foreign_keys = OFF; INSERT INTO native_ids VALUES ('box', 'ses_9', 'm-9')");
  database.close();
  expect(checkStore(fileIn(rig.directory)).problems).toEqual([
    expect.stringMatching(/references: row .* of native_ids names a row of members that is not there/),
  ]);
});

test("of very many problems the first hundred are told, and all are counted", () => {
  const rig = simpleRig();
  const database = new DatabaseSync(fileIn(rig.directory));
  const insert = database.prepare("INSERT INTO launch_revisions VALUES ('m-1', ?, x'00', 1)");
  for (let at = 0; at < 120; at += 1) insert.run(`digest ${at}`);
  database.close();
  const found = checkStore(fileIn(rig.directory));
  expect(found.problems).toHaveLength(100);
  expect(found.problemCount).toBe(120);
});

test("a file that is not there, is no database or is newer is an error, not a verdict", () => {
  const directory = temporaryDirectory();
  const file = fileIn(directory);
  expect(() => checkStore(file)).toThrow(failed("STORE_ERROR"));
  writeFileSync(file, "no database, and long enough to be looked at. ".repeat(50));
  expect(() => checkStore(file)).toThrow(failed("STORE_ERROR"));
  const newer = fileIn(storeOfLayout(1));
  const database = new DatabaseSync(newer);
  database.exec("PRAGMA user_version = 999");
  database.close();
  expect(() => checkStore(newer)).toThrow(failed("STORE_NEWER"));
});

test.for(LAYOUTS.slice(0, -1))(
  "of a store of layout %i the file is looked at, which the records wait for",
  (layout) => {
    expect(checkStore(fileIn(storeOfLayout(layout)))).toMatchObject({ layout, problems: [], rows: {} });
  },
);

test("whatever bit of the file is flipped: a verdict or an error of ours, never a crash and never a record that nobody wrote", () => {
  const directory = storeOfLayout(LAYOUTS.length);
  const file = fileIn(directory);
  const database = new DatabaseSync(file);
  database.exec("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
  database.close();
  const whole = readFileSync(file);
  let found = 0;
  const bent = join(directory, "bent.db");
  fc.assert(
    fc.property(fc.nat({ max: whole.length * 8 - 1 }), (bit) => {
      const bytes = Buffer.from(whole);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      writeFileSync(bent, bytes);
      try {
        if (checkStore(bent).problemCount > 0) found += 1;
      } catch (error) {
        expect(error).toBeInstanceOf(HoldfastError);
        found += 1;
      }
    }),
    { numRuns: 150 },
  );
  // Most bytes of a page are free space, text of an event or a time: nothing there can be known to be wrong.
  expect(found).toBeGreaterThan(0);
});
