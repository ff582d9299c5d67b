import { expect, test } from "vitest";
import {
  beginMigration,
  checkLayout,
  POSTGRES_MIGRATIONS,
  restOfMigration,
} from "../../../../controller/store/postgres/migrations.ts";

test("only the steps that are missing run, and their number is written with them", () => {
  const steps = ["CREATE TABLE a ()", "CREATE TABLE b ()", "CREATE TABLE c ()"];
  const rest = restOfMigration(1, steps);
  expect(rest).not.toContain("TABLE a");
  expect(rest.indexOf("TABLE b")).toBeLessThan(rest.indexOf("TABLE c"));
  expect(rest).toMatch(/INSERT INTO layout VALUES \(3\);\s*COMMIT$/);
  expect(restOfMigration(3, steps)).toBe("COMMIT");
});

test("a layout that is ahead of this version is neither changed nor read", () => {
  const ahead = POSTGRES_MIGRATIONS.length + 1;
  const newer = expect.objectContaining({ code: "STORE_NEWER" });
  expect(() => restOfMigration(ahead)).toThrow(newer);
  expect(() => checkLayout(ahead)).toThrow(newer);
  expect(() => checkLayout(ahead - 1)).not.toThrow();
  expect(() => checkLayout(ahead - 2)).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
});

test("the lock comes before the first look", () => {
  const begin = beginMigration("chats");
  expect(begin.indexOf("pg_advisory_xact_lock")).toBeLessThan(begin.indexOf("CREATE SCHEMA"));
  expect(begin).toContain('"chats"');
});
