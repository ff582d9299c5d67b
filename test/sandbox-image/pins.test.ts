import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CLI_PINS } from "../../sandbox-image/pins.ts";

const folder = new URL("../../sandbox-image/clis/", import.meta.url);
const wanted = JSON.parse(readFileSync(new URL("package.json", folder), "utf8")) as {
  dependencies: Record<string, string>;
};
const lockText = readFileSync(new URL("package-lock.json", folder), "utf8");
const lock = JSON.parse(lockText) as { packages: Record<string, { version: string; integrity?: string }> };

test("each pin is an exact dependency, locked with a digest, and there is no other", () => {
  expect(Object.keys(wanted.dependencies).sort()).toEqual(CLI_PINS.map((pin) => pin.package).sort());
  for (const pin of CLI_PINS) {
    expect(wanted.dependencies[pin.package]).toBe(pin.version);
    const locked = lock.packages[`node_modules/${pin.package}`];
    expect(locked?.version).toBe(pin.version);
    expect(locked?.integrity).toMatch(/^sha512-/);
  }
});

test("the lock file names no registry", () => {
  expect(lockText).not.toContain('"resolved"');
});

test("no two CLIs share a folder in the image", () => {
  expect(new Set(CLI_PINS.map((pin) => pin.cli)).size).toBe(CLI_PINS.length);
});
