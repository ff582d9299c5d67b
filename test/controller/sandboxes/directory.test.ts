import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  directoryModes,
  makeSandboxDirectory,
  removeSandboxDirectory,
  sandboxPaths,
  sandboxToken,
  writeBridgeConfig,
} from "../../../controller/sandboxes/directory.ts";
import { BridgeConfig } from "../../../protocol/bridge-config.ts";
import { FakeSandboxes } from "../../support/fake-sandbox.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const modeOf = (path: string) => statSync(path).mode & 0o777;

async function made() {
  const root = temporaryDirectory();
  const paths = sandboxPaths(root, "box");
  await makeSandboxDirectory(paths);
  return { root, paths };
}

test("a sandbox has its two sockets in a directory of its own below the store", () => {
  expect(sandboxPaths("/d", "box")).toEqual({
    directory: "/d/s/box",
    controllerSocket: "/d/s/box/ctl.sock",
    modelSocket: "/d/s/box/model.sock",
  });
});

test("a path that no Unix socket can have is refused with its name, the longest possible is not", () => {
  const rest = "/s/box/model.sock".length;
  const root = (bytes: number) => `/${"d".repeat(bytes - rest - 1)}`;
  expect(Buffer.byteLength(sandboxPaths(root(107), "box").modelSocket)).toBe(107);
  expect(() => sandboxPaths(root(108), "box")).toThrow(
    expect.objectContaining({ code: "REQUEST_INVALID", message: expect.stringContaining("model.sock") }),
  );
  // Counted in bytes, not in characters.
  expect(() => sandboxPaths(`/${"ö".repeat(60)}`, "box")).toThrow();
});

test("the directory and all in it are for their owner alone", async () => {
  const { root, paths } = await made();
  await sandboxToken(paths);
  await writeBridgeConfig(
    paths,
    await new FakeSandboxes().bridgeConfig({ ...paths, storeId: "s", sandboxId: "box", generation: 1 }),
  );
  const modes = directoryModes();
  // Root closes it to all others; another user lets the bridge in by its group, and nobody else.
  expect(process.getuid?.() === 0 ? modes : { directory: 0o700, file: 0o600 }).toEqual({
    directory: 0o700,
    file: 0o600,
  });
  expect(modeOf(join(root, "s"))).toBe(modes.directory);
  expect(modeOf(paths.directory)).toBe(modes.directory);
  expect(readdirSync(paths.directory)).toEqual(["bridge.json", "token"]);
  for (const name of ["bridge.json", "token"]) expect(modeOf(join(paths.directory, name))).toBe(modes.file);
});

test("the token is made once, random, and stays", async () => {
  const { paths } = await made();
  const token = await sandboxToken(paths);
  expect(token).toMatch(/^[0-9a-f]{64}$/);
  expect(await sandboxToken(paths)).toBe(token);
  expect(readFileSync(join(paths.directory, "token"), "utf8")).toBe(`${token}\n`);
  const other = await made();
  expect(await sandboxToken(other.paths)).not.toBe(token);
});

test("a token that can't be read is an error, and is not made anew", async () => {
  const { paths } = await made();
  await mkdir(join(paths.directory, "token"));
  await expect(sandboxToken(paths)).rejects.toMatchObject({ code: "STORE_ERROR" });
});

test("an empty token is an error: anybody could guess it", async () => {
  const { paths } = await made();
  writeFileSync(join(paths.directory, "token"), "\n");
  await expect(sandboxToken(paths)).rejects.toMatchObject({ code: "STORE_ERROR" });
});

test("the bridge's configuration is replaced whole, and fits its schema", async () => {
  const { paths } = await made();
  const config = await new FakeSandboxes().bridgeConfig({
    ...paths,
    storeId: "s",
    sandboxId: "box",
    generation: 1,
  });
  await writeBridgeConfig(paths, config);
  await writeBridgeConfig(paths, { ...config, workspace: "/elsewhere" });
  const read = BridgeConfig.parse(JSON.parse(readFileSync(join(paths.directory, "bridge.json"), "utf8")));
  expect(read.workspace).toBe("/elsewhere");
  expect(readdirSync(paths.directory)).toEqual(["bridge.json"]);
});

test("making and removing may be repeated", async () => {
  const { paths } = await made();
  await sandboxToken(paths);
  await makeSandboxDirectory(paths);
  expect(readdirSync(paths.directory)).toEqual(["token"]);
  await removeSandboxDirectory(paths);
  await removeSandboxDirectory(paths);
  expect(existsSync(paths.directory)).toBe(false);
});

/** A folder that is nobody's business, in the place of the sandbox's own. */
async function swapped() {
  const { root, paths } = await made();
  const sentinel = join(root, "sentinel");
  mkdirSync(join(sentinel, "box"), { recursive: true });
  for (const name of ["keep", "token", join("box", "keep")]) writeFileSync(join(sentinel, name), "mine");
  const untouched = () => [
    readdirSync(sentinel),
    readFileSync(join(sentinel, "token"), "utf8"),
    readdirSync(join(sentinel, "box")),
  ];
  return { root, paths, sentinel, untouched, before: untouched() };
}

test("P46: a sandbox's folder that became a link is neither written nor removed, and what it leads to stays", async () => {
  const { paths, sentinel, untouched, before } = await swapped();
  rmSync(paths.directory, { recursive: true });
  symlinkSync(sentinel, paths.directory);
  const foreign = { code: "SANDBOX_FOREIGN", message: expect.stringContaining(paths.directory) };
  const config = await new FakeSandboxes().bridgeConfig({
    storeId: "s",
    sandboxId: "box",
    generation: 1,
    directory: paths.directory,
  });
  await expect(makeSandboxDirectory(paths)).rejects.toMatchObject(foreign);
  await expect(writeBridgeConfig(paths, config)).rejects.toMatchObject(foreign);
  await expect(removeSandboxDirectory(paths)).rejects.toMatchObject(foreign);
  rmSync(join(sentinel, "token"));
  await expect(sandboxToken(paths)).rejects.toMatchObject(foreign);
  writeFileSync(join(sentinel, "token"), "mine");
  expect(untouched()).toEqual(before);
});

test("P46: the same with the folder of all sandboxes", async () => {
  const { root, paths, sentinel, untouched, before } = await swapped();
  rmSync(join(root, "s"), { recursive: true });
  symlinkSync(sentinel, join(root, "s"));
  await expect(removeSandboxDirectory(paths)).rejects.toMatchObject({ code: "SANDBOX_FOREIGN" });
  await expect(makeSandboxDirectory(paths)).rejects.toMatchObject({ code: "SANDBOX_FOREIGN" });
  expect(untouched()).toEqual(before);
});

test("P46: links inside the folder are removed, and not what they lead to", async () => {
  const { paths, sentinel, untouched, before } = await swapped();
  symlinkSync(sentinel, join(paths.directory, "workspace"));
  symlinkSync(join(sentinel, "keep"), join(paths.directory, "bridge.json"));
  const config = await new FakeSandboxes().bridgeConfig({
    storeId: "s",
    sandboxId: "box",
    generation: 1,
    directory: paths.directory,
  });
  await writeBridgeConfig(paths, config);
  expect(readFileSync(join(sentinel, "keep"), "utf8")).toBe("mine");
  await removeSandboxDirectory(paths);
  expect(existsSync(paths.directory)).toBe(false);
  expect(untouched()).toEqual(before);
});

test("a folder of another user is not this host's", async ({ skip }) => {
  if (process.getuid?.() !== 0) skip("only root can give a folder away");
  const { paths } = await made();
  chownSync(paths.directory, 12_345, 12_345);
  await expect(removeSandboxDirectory(paths)).rejects.toMatchObject({ code: "SANDBOX_FOREIGN" });
  expect(existsSync(paths.directory)).toBe(true);
});
