import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { builtHelper, gitCommit } from "../../../controller/cli/source-revision.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

function git(root: string, ...words: string[]): string {
  const who = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
  return execFileSync("git", ["-C", root, ...who, ...words], { encoding: "utf8" }).trim();
}

test("the commit that is checked out, and whether what is built from is as it is in it", async () => {
  const root = temporaryDirectory();
  expect(await gitCommit(root)).toBeNull();
  git(root, "init", "-q");
  expect(await gitCommit(root)).toBeNull();
  mkdirSync(join(root, "bridge"));
  writeFileSync(join(root, "bridge", "main.ts"), "1");
  git(root, "add", ".");
  git(root, "commit", "-qm", "one");
  const commit = git(root, "rev-parse", "HEAD");
  expect(await gitCommit(root)).toEqual({ commit, isClean: true });
  writeFileSync(join(root, "notes.txt"), "x");
  expect(await gitCommit(root)).toEqual({ commit, isClean: true });
  writeFileSync(join(root, "bridge", "main.ts"), "2");
  expect(await gitCommit(root)).toEqual({ commit, isClean: false });
  // A folder within somebody else's repository has no commit of its own.
  expect(await gitCommit(join(root, "bridge"))).toBeNull();
});

function withBuild(program: string): { root: string; node: string } {
  const root = temporaryDirectory();
  mkdirSync(join(root, "sandbox-image"));
  writeFileSync(join(root, "sandbox-image", "build.ts"), program);
  return { root, node: process.execPath };
}

test("the bridge that a checkout would build is told by its own build program, or why it can't be", async () => {
  const sha256 = "c".repeat(64);
  expect(
    await builtHelper(withBuild(`console.log(process.argv[2] === "--helper-digest" ? "${sha256}" : "")`)),
  ).toEqual({
    sha256,
  });
  for (const program of [
    "process.exit(1)",
    'console.log("nothing")',
    `console.log("${sha256}"); process.exit(1)`,
  ])
    expect(await builtHelper(withBuild(program))).toEqual({ problem: "the build of the bridge fails here" });
  expect(await builtHelper({ root: temporaryDirectory(), node: process.execPath })).toEqual({
    problem: "this package has no sources to build it from",
  });
});
