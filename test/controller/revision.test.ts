import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRevision } from "../../controller/revision.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

function checkout(): { root: string; own: string } {
  const root = temporaryDirectory();
  mkdirSync(join(root, "controller", "cli"), { recursive: true });
  mkdirSync(join(root, "protocol"));
  for (const name of ["controller/revision.ts", "controller/cli/main.ts", "protocol/pin.ts"])
    writeFileSync(join(root, name), name);
  writeFileSync(join(root, "package.json"), '{"version":"1.2.3"}');
  writeFileSync(join(root, "package-lock.json"), "{}");
  return { root, own: join(root, "controller", "revision.ts") };
}

test("this checkout has a version and a digest of its sources, the same each time", async () => {
  const revision = await readRevision();
  expect(revision).toMatchObject({ version: "0.1.0", of: "sources" });
  expect(revision.sha256).toMatch(/^[0-9a-f]{64}$/);
  expect(await readRevision()).toEqual(revision);
});

test("the digest is the sources' wherever they lie, and another one for each change of what runs", async () => {
  const { root, own } = checkout();
  const { sha256 } = await readRevision({ root, own });
  const moved = temporaryDirectory();
  cpSync(root, moved, { recursive: true });
  const there = { root: moved, own: join(moved, "controller", "revision.ts") };
  expect((await readRevision(there)).sha256).toBe(sha256);
  const seen = new Set([sha256]);
  for (const name of ["controller/cli/main.ts", "protocol/pin.ts", "protocol/new.ts", "package-lock.json"]) {
    writeFileSync(join(moved, name), "changed");
    seen.add((await readRevision(there)).sha256);
  }
  expect(seen.size).toBe(5);
  const before = (await readRevision(there)).sha256;
  for (const name of ["README.md", "controller/notes.txt", "bridge.ts"])
    writeFileSync(join(moved, name), "x");
  expect((await readRevision(there)).sha256).toBe(before);
});

test("a bundle is digested as the file that it is", async () => {
  const root = temporaryDirectory();
  mkdirSync(join(root, "dist"));
  const own = join(root, "dist", "holdfast.js");
  writeFileSync(own, "bundle");
  writeFileSync(join(root, "package.json"), '{"version":"2.0.0"}');
  const revision = await readRevision({ root, own });
  expect(revision).toMatchObject({ version: "2.0.0", of: "bundle" });
  writeFileSync(own, "another");
  expect((await readRevision({ root, own })).sha256).not.toBe(revision.sha256);
  writeFileSync(join(root, "package.json"), "{");
  expect((await readRevision({ root, own })).version).toBe("unknown");
});
