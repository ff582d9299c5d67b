import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { foldersOf, type LockedPackages, parseLock } from "../../sandbox-image/libraries.ts";
import { CLI_PINS, type CliPin } from "../../sandbox-image/pins.ts";

const pinOf = (kind: CliPin["kind"]): CliPin => ({ ...(CLI_PINS[0] as CliPin), package: "@me/cli", kind });

function lock(packages: Record<string, object>): LockedPackages {
  const entries = Object.entries(packages).map(([name, entry]) => [
    name,
    { integrity: `sha512-${name}`, ...entry },
  ]);
  return parseLock(JSON.stringify({ packages: Object.fromEntries(entries) }));
}

const names = (pin: CliPin, locked: LockedPackages) => foldersOf(pin, locked).map(({ folder }) => folder);

test("a script brings every library that Node would find from it, the nearest of each name", () => {
  const locked = lock({
    "": { dependencies: { other: "1" } },
    "node_modules/@me/cli": { dependencies: { a: "1", b: "1" } },
    "node_modules/@me/cli/node_modules/b": { dependencies: { c: "1", a: "1" } },
    "node_modules/a": { dependencies: { b: "2" } },
    "node_modules/b": {},
    "node_modules/c": { dependencies: { "@me/cli": "1" } },
    "node_modules/other": {},
  });
  expect(names(pinOf("script"), locked)).toEqual([
    "node_modules/@me/cli",
    "node_modules/@me/cli/node_modules/b",
    "node_modules/a",
    "node_modules/b",
    "node_modules/c",
  ]);
});

test("a program is its own folder and nothing else", () => {
  const locked = lock({ "node_modules/@me/cli": { dependencies: { a: "1" } }, "node_modules/a": {} });
  expect(names(pinOf("program"), locked)).toEqual(["node_modules/@me/cli"]);
});

test("an optional or peer library comes along where it is locked; a needed one must be", () => {
  const cli = { optionalDependencies: { o: "1", gone: "1" }, peerDependencies: { p: "1", none: "1" } };
  const locked = lock({ "node_modules/@me/cli": cli, "node_modules/o": {}, "node_modules/p": {} });
  expect(names(pinOf("script"), locked)).toEqual([
    "node_modules/@me/cli",
    "node_modules/o",
    "node_modules/p",
  ]);
  const needs = lock({ "node_modules/@me/cli": { dependencies: { gone: "1" } } });
  expect(() => names(pinOf("script"), needs)).toThrow("lacks gone, which node_modules/@me/cli needs");
});

test("each folder is held to its digest, and one without is refused", () => {
  const locked = lock({ "node_modules/@me/cli": {} });
  expect(foldersOf(pinOf("script"), locked)[0]?.integrity).toBe("sha512-node_modules/@me/cli");
  const bare = parseLock(JSON.stringify({ packages: { "node_modules/@me/cli": {} } }));
  expect(() => foldersOf(pinOf("program"), bare)).toThrow("no digest for node_modules/@me/cli");
  expect(() => foldersOf(pinOf("program"), {})).toThrow("no digest");
});

test("the real lock file gives each pin its folders, and Pi alone brings libraries", () => {
  const file = new URL("../../sandbox-image/clis/package-lock.json", import.meta.url);
  const locked = parseLock(readFileSync(file, "utf8"));
  for (const pin of CLI_PINS) {
    const { length } = foldersOf(pin, locked);
    if (pin.cli === "pi") expect(length).toBeGreaterThan(100);
    else expect(length, pin.package).toBe(1);
  }
});
