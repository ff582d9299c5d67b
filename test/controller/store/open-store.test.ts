import { statSync } from "node:fs";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { openStore, type StorePlace, storePlace } from "../../../controller/store/open-store.ts";
import { startPostgres } from "../../support/postgres.ts";
import { AT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);

function open(place: StorePlace) {
  const store = openStore({ ...place, nowAt: () => AT, cliVersion: () => "1" });
  onTestFinished(() => store.close());
  return store;
}

test("a folder has a store of its own, a database one that every host finds", () => {
  const store = open({ directory: temporaryDirectory() });
  store.createSandbox({ id: "box", kind: "process", directory: "/d" });
  const [a, b] = [open({ url: server.url(), host: "a" }), open({ url: server.url(), host: "b" })];
  expect([a.id === b.id, a.id === store.id]).toEqual([true, false]);
  a.createSandbox({ id: "box", kind: "process", directory: "/e" });
  expect(b.sandbox("box")?.directory).toBe("/e");
  expect(() => b.createSandbox({ id: "box", kind: "process", directory: "/f" })).toThrow(
    expect.objectContaining({ code: "SANDBOX_EXISTS" }),
  );
});

test("words with a zero character are kept on both, without it where it can't be", () => {
  for (const place of [{ directory: temporaryDirectory() }, { url: server.url(), host: "zero" }]) {
    const store = open(place);
    store.createSandbox({ id: "zero", kind: "process", directory: "/d" });
    store.setUnready("zero", ["a\0b"]);
    expect(store.sandbox("zero")?.unready).toMatch(/^a[\0\uFFFD]b$/);
  }
});

test("a host's store is in its folder, or in the database that is named, also by a variable", () => {
  const directory = `${temporaryDirectory()}/made`;
  const url = "postgres://me@h/db";
  expect(storePlace({ directory })).toEqual({ directory });
  expect(storePlace({ directory, storeUrl: url })).toEqual({ url });
  expect(storePlace({ directory, storeUrl: { variable: "V" }, hostId: "a", variables: { V: url } })).toEqual({
    url,
    host: "a",
  });
  expect(statSync(directory).mode & 0o777).toBe(0o700);
  for (const variables of [{}, { V: "" }])
    expect(() => storePlace({ directory, storeUrl: { variable: "V" }, variables })).toThrow(
      expect.objectContaining({ code: "REQUEST_INVALID" }),
    );
});
