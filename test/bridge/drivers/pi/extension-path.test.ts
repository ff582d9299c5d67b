import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { piExtensionPath } from "../../../../bridge/drivers/pi/extension-path.ts";
import { bundleBridge } from "../../../../sandbox-image/bundle.ts";
import { PI_EXTENSION } from "../../../../sandbox-image/layout.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";

test("from the sources it is the extension's own entry file, which is there", () => {
  const path = piExtensionPath();
  expect(path.endsWith("/bridge/drivers/pi/extension/main.ts")).toBe(true);
  expect(existsSync(path)).toBe(true);
});

test("bundled it is the file of the image's name beside the bundle, wherever that was copied to", async () => {
  const folder = temporaryDirectory();
  const module = new URL("../../../../bridge/drivers/pi/extension-path.ts", import.meta.url).pathname;
  const entry = join(folder, "main.ts");
  writeFileSync(
    entry,
    `import { piExtensionPath } from ${JSON.stringify(module)};\nconsole.log(piExtensionPath());`,
  );
  const outFile = join(folder, "elsewhere", "bridge.cjs");
  await bundleBridge({ entry, outFile });
  const said = execFileSync(process.execPath, [outFile], { cwd: "/", encoding: "utf8" }).trim();
  expect(said).toBe(join(dirname(outFile), PI_EXTENSION));
});
