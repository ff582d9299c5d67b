import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseLock } from "../../sandbox-image/libraries.ts";
import { CLI_PINS, type CliPin, choosePins, commandOf, isLeftOut } from "../../sandbox-image/pins.ts";

const folder = new URL("../../sandbox-image/clis/", import.meta.url);
const wanted = JSON.parse(readFileSync(new URL("package.json", folder), "utf8")) as {
  dependencies: Record<string, string>;
};
const lockText = readFileSync(new URL("package-lock.json", folder), "utf8");
const locked = parseLock(lockText);

/** The version in `1.2.3`, `npm:name@1.2.3` and `npm:name@1.2.3-linux-x64`. */
function versionOf(range: string | undefined): string | undefined {
  return range?.replace(/^npm:.+@/, "").replace(/-linux-x64$/, "");
}

test("each pin is an exact dependency, locked with a digest, and there is no other", () => {
  expect(Object.keys(wanted.dependencies).sort()).toEqual(CLI_PINS.map((pin) => pin.package).sort());
  for (const pin of CLI_PINS) {
    expect(versionOf(wanted.dependencies[pin.package]), pin.package).toBe(pin.version);
    const entry = locked[`node_modules/${pin.package}`];
    expect(versionOf(entry?.version), pin.package).toBe(pin.version);
    expect(entry?.integrity).toMatch(/^sha512-/);
    expect(pin.says.split(" ")).toContain(pin.version);
  }
});

test("the lock file names no registry, and holds a digest for every package", () => {
  expect(lockText).not.toContain('"resolved"');
  for (const [name, { integrity }] of Object.entries(locked))
    if (name !== "") expect(integrity, name).toMatch(/^sha512-/);
});

test("one version of each CLI is the default one", () => {
  const defaults = CLI_PINS.filter(({ isDefault }) => isDefault).map(({ cli }) => cli);
  expect(defaults.toSorted()).toEqual(["claude", "codex", "kilo", "opencode", "pi"]);
  expect(choosePins()).toEqual(CLI_PINS.filter(({ isDefault }) => isDefault));
});

test("another pinned Claude Code is taken in the place of the default one, and no other is", () => {
  const chosen = choosePins("2.1.220");
  expect(chosen.filter(({ cli }) => cli === "claude").map(({ version }) => version)).toEqual(["2.1.220"]);
  expect(chosen.map(({ cli }) => cli)).toEqual(choosePins().map(({ cli }) => cli));
  expect(() => choosePins("2.1.1")).toThrow("Claude Code 2.1.1 is not pinned: name 2.1.332 or 2.1.220");
});

test("a program is its own command, a script is run by the place's Node", () => {
  const place = { node: "/n", modules: "/m" };
  const made = { ...(CLI_PINS[0] as CliPin), package: "@a/b", entry: "bin/c" };
  expect(commandOf({ ...made, kind: "program" }, place)).toEqual(["/m/@a/b/bin/c"]);
  expect(commandOf({ ...made, kind: "script" }, place)).toEqual(["/n", "/m/@a/b/bin/c"]);
});

test("what is left out is a folder with all in it, or an ending wherever it stands", () => {
  const pin = { ...(CLI_PINS[0] as CliPin), leftOut: ["res/voice", "*.map"] };
  const left = ["res/voice", "res/voice/bin/host", "a.map", "deep/er/b.js.map"];
  const kept = ["res", "res/voices", "x/res/voice", "a.map.js", "map"];
  for (const path of left) expect(isLeftOut(pin, path, true), path).toBe(true);
  for (const path of kept) expect(isLeftOut(pin, path, true), path).toBe(false);
  expect(left.filter((path) => isLeftOut(pin, path, false))).toEqual(["a.map", "deep/er/b.js.map"]);
});
