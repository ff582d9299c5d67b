import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import {
  bundleBridge,
  bundlePiExtension,
  pinOfBridge,
  refuseOtherPlatforms,
} from "../../sandbox-image/bundle.ts";
import { splitReference } from "../../sandbox-image/image-store.ts";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function stub(source: string): { entry: string; outFile: string; folder: string } {
  const folder = mkdtempSync(join(tmpdir(), "hf-bundle-"));
  folders.push(folder);
  const entry = join(folder, "main.ts");
  writeFileSync(entry, source);
  return { entry, outFile: join(folder, "out", "bridge.cjs"), folder };
}

test("a bridge becomes one file that answers its pin, and no other file is left", async () => {
  const { entry, outFile, folder } = stub(
    'if (process.argv[2] === "--pin") console.log("some-pin=3" as string);',
  );
  const bytes = await bundleBridge({ entry, outFile });
  expect(readdirSync(join(folder, "out"))).toEqual(["bridge.cjs"]);
  expect(statSync(outFile).size).toBe(bytes.length);
  expect(await pinOfBridge({ node: process.execPath, bridge: outFile })).toBe("some-pin=3");
});

test("the same source is the same bundle", async () => {
  const { entry, outFile } = stub("process.exit(0);");
  expect(await bundleBridge({ entry, outFile })).toEqual(await bundleBridge({ entry, outFile }));
});

test("the bridge of a checkout is the same from every working folder, and its digest keeps no file", async () => {
  const program = fileURLToPath(new URL("../../sandbox-image/build.ts", import.meta.url));
  const elsewhere = mkdtempSync(join(tmpdir(), "hf-bundle-"));
  folders.push(elsewhere);
  const digest = (cwd: string) =>
    execFileSync(process.execPath, [program, "--helper-digest"], {
      cwd,
      encoding: "utf8",
      env: { TMPDIR: elsewhere },
    });
  const [here, there] = [digest(process.cwd()), digest(elsewhere)];
  expect(here).toMatch(/^[0-9a-f]{64}\n$/);
  expect(there).toBe(here);
  expect(readdirSync(elsewhere)).toEqual([]);
});

test("another file beside the bridge makes another bridge, which still answers its pin", async () => {
  const { entry, outFile } = stub('console.log("some-pin=3");');
  const beside = (text: string) => ({ "x.mjs": Buffer.from(text) });
  const one = await bundleBridge({ entry, outFile, beside: beside("one") });
  expect(await bundleBridge({ entry, outFile, beside: beside("one") })).toEqual(one);
  expect(await bundleBridge({ entry, outFile, beside: beside("two") })).not.toEqual(one);
  expect(await pinOfBridge({ node: process.execPath, bridge: outFile })).toBe("some-pin=3");
});

test("the extension of Pi becomes one module with its default export, Pi's own packages left to Pi", async () => {
  const { entry, folder } = stub(
    `import { words } from "./words.ts";
     import { Text } from "@earendil-works/pi-tui";
     export default (): unknown => [words, Text];`,
  );
  writeFileSync(join(folder, "words.ts"), 'export const words: string = "from beside";');
  const outFile = join(folder, "out", "pi-extension.mjs");
  const text = (await bundlePiExtension({ entry, outFile })).toString();
  expect(text).toContain("from beside");
  expect(text).toMatch(/from "@earendil-works\/pi-tui"/);
  expect(text).toMatch(/export \{\s+\w+ as default\s+\}/);
  expect(readdirSync(join(folder, "out"))).toEqual(["pi-extension.mjs"]);
});

test.each([
  ["two pins", 'console.log("a=1"); console.log("b=2");'],
  ["silence", ""],
  ["a failure", 'console.log("a=1"); process.exit(1);'],
])("a bridge that answers with %s is refused", async (_what, source) => {
  const { entry, outFile } = stub(`${source}\nvoid 0; globalThis.kept = 1;`);
  await bundleBridge({ entry, outFile });
  await expect(pinOfBridge({ node: process.execPath, bridge: outFile })).rejects.toThrow("one pin");
});

test("a missing entry file is named", async () => {
  await expect(bundleBridge({ entry: "/none/main.ts", outFile: "/none/out" })).rejects.toThrow(
    "/none/main.ts",
  );
});

test("other platforms are refused before npm is asked", () => {
  expect(() => refuseOtherPlatforms("linux", "x64")).not.toThrow();
  expect(() => refuseOtherPlatforms("linux", "arm64")).toThrow("this is linux-arm64");
  expect(() => refuseOtherPlatforms("darwin", "x64")).toThrow("linux-x64 only");
});

test.each([
  ["holdfast/sandbox:dev", ["holdfast/sandbox", "dev"]],
  ["node", ["node", "latest"]],
  ["host:5000/a/b", ["host:5000/a/b", "latest"]],
  ["host:5000/a/b:c", ["host:5000/a/b", "c"]],
])("%s is split into name and tag", (reference, expected) => {
  expect(splitReference(reference)).toEqual(expected);
});
