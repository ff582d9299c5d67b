import { expect, test } from "vitest";
import { codeChanges } from "../../../controller/sandboxes/layer-changes.ts";

const changed = (...paths: string[]) => paths.map((Path) => ({ Path, Kind: 0 }));

test("no change, and what agents, the bridge and the engine write, is no change of code", () => {
  expect(codeChanges(null)).toEqual([]);
  expect(codeChanges([])).toEqual([]);
  const usual = [
    "/var/lib/holdfast/journal",
    "/home",
    "/home/slots/m-1/home/opt/x",
    "/workspace/usr/bin/x",
    "/tmp/opt",
  ];
  expect(codeChanges(changed(...usual, "/run/holdfast", "/etc", "/etc/hosts", "/etc/resolv.conf"))).toEqual(
    [],
  );
});

test("a changed, added or deleted file of the image is told once, without the folders above it", () => {
  expect(
    codeChanges([
      { Path: "/opt", Kind: 0 },
      { Path: "/opt/holdfast", Kind: 0 },
      { Path: "/opt/holdfast/clis/kilo/bin/kilo", Kind: 0 },
      { Path: "/etc", Kind: 0 },
      { Path: "/etc/ld.so.preload", Kind: 1 },
      { Path: "/usr/bin/git", Kind: 2 },
    ]),
  ).toEqual([
    "/opt/holdfast/clis/kilo/bin/kilo (changed)",
    "/etc/ld.so.preload (added)",
    "/usr/bin/git (deleted)",
  ]);
});

test("a folder of the image whose own rights were changed is told, and one that is gone", () => {
  expect(codeChanges(changed("/opt/holdfast"))).toEqual(["/opt/holdfast (changed)"]);
  expect(codeChanges([{ Path: "/etc", Kind: 2 }])).toEqual(["/etc (deleted)"]);
  expect(codeChanges([{ Path: "/lib", Kind: 7 }])).toEqual(["/lib (kind 7)"]);
});

test("names that only begin alike are others", () => {
  expect(codeChanges(changed("/optional", "/usrlocal", "/etcetera", "/library"))).toEqual([]);
});

test("of many the first five are named", () => {
  const many = Array.from({ length: 9 }, (_, at) => `/usr/bin/p${at}`);
  expect(codeChanges(changed(...many))).toHaveLength(6);
  expect(codeChanges(changed(...many)).at(-1)).toBe("and 4 more");
});
