import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { labelList, readEnvironment, readRoute } from "../../../controller/cli/environment.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const KEY = "sk-secret-1";

function keyFile(content: string | Buffer, mode = 0o600): string {
  const path = join(temporaryDirectory(), "key");
  writeFileSync(path, content, { mode });
  chmodSync(path, mode);
  return path;
}

function readKey(path: string): string | null | undefined {
  return readRoute({ "base-url": "https://p.example/v1", "key-file": path })?.key;
}

test("the store is the option's, else the variable's, else the user's data folder", () => {
  const at = (values: Record<string, string>, variables: NodeJS.ProcessEnv) =>
    readEnvironment(values, variables).storeDirectory;
  expect(at({ store: "rel" }, { HOLDFAST_STORE: "/v" })).toBe(resolve("rel"));
  expect(at({}, { HOLDFAST_STORE: "/v", HOME: "/h" })).toBe("/v");
  expect(at({}, { XDG_DATA_HOME: "/x", HOME: "/h" })).toBe("/x/holdfast");
  expect(at({}, { XDG_DATA_HOME: "", HOME: "/h" })).toBe("/h/.local/share/holdfast");
  expect(() => at({ store: "" }, {})).toThrow("--store needs a folder");
});

test("a database is the option's, else the variable's; a password is not for everybody to see", () => {
  const url = (values: Record<string, string>, variables: NodeJS.ProcessEnv = {}) =>
    readEnvironment(values, variables).storeUrl;
  const own = "postgres://me:SECRET@h/own";
  expect(url({})).toBeNull();
  expect(url({}, { HOLDFAST_STORE_URL: own })).toBe(own);
  expect(url({ "store-url": "postgres://me@h/db" }, { HOLDFAST_STORE_URL: own })).toBe("postgres://me@h/db");
  for (const given of [own, "postgres:///db?user=me&password=SECRET", "SECRET", ""]) {
    const refused = () => url({ "store-url": given });
    expect(refused).toThrow(expect.objectContaining({ code: "USAGE" }));
    expect(refused).toThrow(expect.not.objectContaining({ message: expect.stringContaining("SECRET") }));
  }
});

test("labels are read as pairs, and written as they were read", () => {
  const labels = (list: string) => readEnvironment({}, { HOLDFAST_LABELS: list }).labels;
  expect(readEnvironment({}, {}).labels).toEqual({});
  expect(labels("a=1,b.c=x=y")).toEqual({ a: "1", "b.c": "x=y" });
  expect(labelList(labels("a=1,b.c=x=y"))).toBe("a=1,b.c=x=y");
  expect(() => labels("a")).toThrow("HOLDFAST_LABELS takes name=value");
  expect(() => labels("=a")).toThrow("HOLDFAST_LABELS takes name=value");
});

test("S16: a variable of ours that is unknown, empty or wrong is refused by its name, also where an option overrides it", () => {
  const read = (variables: NodeJS.ProcessEnv) => () => readEnvironment({ store: "/s" }, variables);
  const refused = (text: string) => expect.objectContaining({ code: "USAGE", message: text });
  for (const name of ["HOLDFAST_STORES", "HOLDFAST_", "HOLDFAST_Store", "HOLDFAST_TESTS"]) {
    expect(read({ [name]: "/v" })).toThrow(
      refused(
        `${name} sets nothing here; there are HOLDFAST_STORE, HOLDFAST_STORE_URL, HOLDFAST_HOST_ID, HOLDFAST_DIST, HOLDFAST_LABELS`,
      ),
    );
  }
  for (const name of [
    "HOLDFAST_STORE",
    "HOLDFAST_STORE_URL",
    "HOLDFAST_HOST_ID",
    "HOLDFAST_DIST",
    "HOLDFAST_LABELS",
  ]) {
    expect(read({ [name]: "" })).toThrow(refused(`${name} is empty: give it a value, or unset it`));
  }
  expect(read({ HOLDFAST_LABELS: "nonsense" })).toThrow("HOLDFAST_LABELS takes name=value");
  expect(read({ HOLDFAST_HOST_ID: "a" })).toThrow("of a store that hosts share");
  expect(read({ HOLDFAST_HOST_ID: "a b" })).toThrow("a host's id is");
  const around = {
    HOLDFAST_TEST_RUN: "r",
    HOLDFAST_SKIP_CONTAINERS: "",
    HOLDFAST_SLOT: "s",
    holdfast: "",
    HOLD: "",
  };
  expect(read(around)().storeDirectory).toBe("/s");
});

test("what the build wrote is beside the program, or where the variable says", () => {
  expect(readEnvironment({}, {}).distDirectory).toBe(resolve("dist"));
  expect(readEnvironment({}, { HOLDFAST_DIST: "/d" }).distDirectory).toBe("/d");
});

test("a key, an authority or a proxy needs an address; two places of a key exclude one another", () => {
  expect(readRoute({}, {})).toBeNull();
  for (const name of ["key-file", "key-variable", "ca-file", "proxy"])
    expect(() => readRoute({ [name]: "k" }, {})).toThrow(`--${name} needs --base-url`);
  const base = { "base-url": "https://p.example/v1" };
  expect(() => readRoute({ ...base, "key-file": "k", "key-variable": "K" }, {})).toThrow(
    "exclude one another",
  );
  expect(
    readRoute({ ...base, "key-variable": "K", "ca-file": "/ca", proxy: "http://proxy:3128" }, { K: KEY }),
  ).toEqual({
    baseUrl: "https://p.example/v1",
    key: KEY,
    upstream: { caFile: "/ca", proxy: "http://proxy:3128" },
  });
  const seen = () => readRoute({ ...base, proxy: `http://u:${KEY}@proxy` }, {});
  expect(seen).toThrow("--proxy takes an address without a password");
  expect(seen).not.toThrow(KEY);
});

test("an address that is none, or that carries a key, is refused without showing the key", () => {
  for (const address of [
    `https://user:${KEY}@p.example/v1`,
    `https://${KEY}@p.example/v1`,
    `https://p.example/v1?key=${KEY}`,
    `https://p.example/v1#${KEY}`,
    `htp://user:${KEY}@p.example`,
    `htp://p.example?key=${KEY}`,
    "p.example/v1",
    "file:///etc/passwd",
    "",
  ]) {
    let message = "";
    try {
      readRoute({ "base-url": address });
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message, address).not.toBe("");
    expect(message, address).not.toContain(KEY);
  }
});

test("a key is one word in a file of its owner alone", () => {
  expect(readKey(keyFile(`${KEY}\r\n`))).toBe(KEY);
  expect(() => readKey(keyFile(KEY, 0o644))).toThrow("chmod 600");
  expect(() => readKey(keyFile(KEY, 0o640))).toThrow("chmod 600");
  expect(() => readKey(keyFile(" \n"))).toThrow("is empty");
  expect(() => readKey(keyFile("two words"))).toThrow("holds no single key");
  expect(() => readKey(keyFile("one\ntwo\n"))).toThrow("holds no single key");
  expect(() => readKey(keyFile(Buffer.from([0, 1, 200])))).toThrow("holds no single key");
  expect(() => readKey("/nonexistent/key")).toThrow("does not exist");
  const folder = join(temporaryDirectory(), "folder");
  mkdirSync(folder, { mode: 0o700 });
  expect(() => readKey(folder)).toThrow("can't be read");
});
