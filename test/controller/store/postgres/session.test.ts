import { expect, test } from "vitest";
import { serverProblem } from "../../../../controller/store/postgres/session.ts";

const GOOD = { version: 150_018, standby: false, encoding: "UTF8" };

test("a primary of version 14 or newer that speaks UTF8 can hold a store", () => {
  expect(serverProblem(GOOD)).toBeNull();
  expect(serverProblem({ ...GOOD, version: 140_000 })).toBeNull();
  expect(serverProblem({ ...GOOD, version: 130_022 })).toContain("PostgreSQL 13");
  expect(serverProblem({ ...GOOD, standby: true })).toContain("standby");
  expect(serverProblem({ ...GOOD, encoding: "SQL_ASCII" })).toContain("SQL_ASCII");
});
