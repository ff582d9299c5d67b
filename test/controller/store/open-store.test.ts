import { afterAll, expect, onTestFinished, test } from "vitest";
import { openStore, type StorePlace } from "../../../controller/store/open-store.ts";
import { startPostgres } from "../../support/postgres.ts";
import { AT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove());

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
