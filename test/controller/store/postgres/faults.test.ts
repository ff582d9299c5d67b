import { expect, test } from "vitest";
import {
  type FaultKind,
  faultOf,
  openingError,
  placeOf,
  retryOf,
  storeError,
} from "../../../../controller/store/postgres/faults.ts";

const fault = (kind: FaultKind, code = "") => ({ kind, code, message: "why" });

test("an answer of the server is told from a connection that went away", () => {
  const answer = { severity: "ERROR", code: "23505", message: "duplicate" };
  expect(faultOf(answer)).toEqual({ kind: "sql", code: "23505", message: "duplicate" });
  expect(faultOf({ ...answer, severity: "FATAL", code: "57P01" }).kind).toBe("lost");
  // Told as an error, and the connection ends behind it.
  for (const code of ["57P01", "57P05", "25P03", "08006"])
    expect(faultOf({ ...answer, code }).kind).toBe("lost");
  expect(faultOf(Object.assign(new Error("gone"), { code: "ECONNRESET" }))).toEqual({
    kind: "lost",
    code: "ECONNRESET",
    message: "gone",
  });
  expect(faultOf(undefined)).toEqual({ kind: "lost", code: "", message: "no reason was given" });
});

test.for([
  // kind, code, before the commit, during it
  ["sql", "40001", "again", "again"],
  ["sql", "40P01", "again", "again"],
  ["sql", "23505", "again", "again"],
  ["sql", "23503", "no", "no"],
  ["sql", "57014", "no", "no"],
  ["lost", "", "reconnect", "no"],
  ["gone", "", "reconnect", "reconnect"],
  ["absent", "", "no", "no"],
  ["timeout", "", "no", "no"],
  ["fenced", "", "no", "no"],
] as const)("%s %s is tried: %s before the commit, %s during it", ([kind, code, before, during]) => {
  expect(retryOf(fault(kind, code), "before commit")).toBe(before);
  expect(retryOf(fault(kind, code), "commit")).toBe(during);
});

test("the caller gets a code of ours", () => {
  expect(storeError(fault("sql", "23503"), "it failed")).toMatchObject({
    code: "STORE_ERROR",
    message: "it failed: 23503: why",
  });
  expect(storeError(fault("sql", "53100"), "it failed").code).toBe("DISK_FULL");
  expect(storeError(fault("fenced"), "it failed").code).toBe("FENCED");
});

test("a store that can't be opened says where, why and what to do", () => {
  const { message } = openingError(fault("absent", "28P01"), "postgres://h:1/db");
  expect(message).toMatch(/^the store at postgres:\/\/h:1\/db can't be opened: .*why.*PGPASSWORD/);
});

test("an address is shown without user, password and options", () => {
  expect(placeOf("postgres://me:secret@db.example:5433/chats?sslmode=require&password=secret")).toBe(
    "postgres://db.example:5433/chats",
  );
  expect(placeOf("postgresql:///chats?user=me&host=/run/pg")).toBe("postgres:///run/pg/chats");
  for (const url of ["mysql://h/d", "secret", ""]) expect(placeOf(url)).toBeNull();
});
