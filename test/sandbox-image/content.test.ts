import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { bridgeContent, cliContent, imageCommand } from "../../sandbox-image/content.ts";
import { sha256Of } from "../../sandbox-image/digest.ts";
import { CLI_PINS, type CliPin } from "../../sandbox-image/pins.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const PIN: CliPin = {
  ...(CLI_PINS[0] as CliPin),
  cli: "pi",
  package: "@me/cli",
  entry: "dist/cli.js",
  kind: "script",
  leftOut: ["*.map", "docs/large"],
};
const at = (folder: string) => ({ folder, integrity: "sha512-x" });

function installed(files: Record<string, string>): string {
  const root = temporaryDirectory();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

const FILES = {
  "node_modules/@me/cli/dist/cli.js": "run",
  "node_modules/@me/cli/dist/cli.js.map": "map",
  "node_modules/@me/cli/docs/large/a.png": "png",
  "node_modules/@me/cli/node_modules/b/index.js": "nested",
  "node_modules/a/docs/large/kept.md": "another package's",
  "node_modules/a/dist/cli.js": "not the entry",
  "node_modules/unrelated/index.js": "no",
};

test("a script's folders are laid out as Node looks for them, without what is left out and what is not its own", async () => {
  const clisFolder = installed(FILES);
  chmodSync(join(clisFolder, "node_modules/a/dist/cli.js"), 0o755);
  symlinkSync("cli.js", join(clisFolder, "node_modules/a/dist/link"));
  const folders = ["node_modules/@me/cli", "node_modules/@me/cli/node_modules/b", "node_modules/a"].map(at);
  const { context } = await cliContent({ clisFolder, pin: PIN, folders });
  const below = "content/clis/pi/node_modules";
  const shown = context
    .filter(({ kind }) => kind !== "folder")
    .map(({ path, mode }) => `${path} ${mode.toString(8)}`);
  expect(shown).toEqual([
    `${below}/@me/cli/dist/cli.js 644`,
    `${below}/@me/cli/node_modules/b/index.js 644`,
    `${below}/a/dist/cli.js 755`,
    `${below}/a/dist/link 777`,
    `${below}/a/docs/large/kept.md 644`,
  ]);
});

test("each folder is there before what is in it, so that all have our modes and none the builder's", async () => {
  const folders = ["node_modules/@me/cli", "node_modules/@me/cli/node_modules/b"].map(at);
  const { context } = await cliContent({ clisFolder: installed(FILES), pin: PIN, folders });
  const seen = new Set<string>();
  for (const { kind, path } of context) {
    if (path !== "content") expect(seen.has(dirname(path)), path).toBe(true);
    if (kind === "folder") seen.add(path);
  }
});

test("the manifest has what the CLI starts with, and a program can be run but not read", async () => {
  const clisFolder = installed(FILES);
  const folders = [at("node_modules/@me/cli")];
  const path = "/opt/holdfast/clis/pi/node_modules/@me/cli/dist/cli.js";
  const file = { path, sha256: sha256Of("run"), sizeBytes: 3 };
  const script = await cliContent({ clisFolder, pin: PIN, folders });
  expect(script.files).toEqual([{ ...file, mode: "0644" }]);
  const program = await cliContent({ clisFolder, pin: { ...PIN, kind: "program" }, folders });
  expect(program.files).toEqual([{ ...file, mode: "0711" }]);
  expect(program.context.find((entry) => entry.path.endsWith("dist/cli.js"))?.mode).toBe(0o711);
  expect(imageCommand(PIN)).toEqual(["/opt/holdfast/node", path]);
  expect(imageCommand({ ...PIN, kind: "program" })).toEqual([path]);
});

test("the top layer is the bridge, Pi's extension beside it, and the manifest", () => {
  const [bridge, piExtension, manifest] = ["b", "p", "m"].map((text) => Buffer.from(text)) as [
    Buffer,
    Buffer,
    Buffer,
  ];
  const entries = bridgeContent({ bridge, piExtension, manifest });
  expect(entries.map(({ path, mode }) => `${path} ${mode.toString(8)}`)).toEqual([
    "content 755",
    "content/bridge.cjs 644",
    "content/pi-extension.mjs 644",
    "content/manifest.json 644",
  ]);
});
