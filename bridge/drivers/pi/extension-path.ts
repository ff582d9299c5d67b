/** Where the extension is that gives Pi its permissions: beside the bridge's bundle, and in the sources when run from them. */
import { dirname, join } from "node:path";

/** Its name beside the bundle; the image's build gives it the same one. */
const BUNDLED_NAME = "pi-extension.mjs";

/** @param running where this code runs: the sources' own folder, or undefined in the bundle, and the bundle's path */
export function piExtensionPath(
  running: { sourceFolder: string | undefined; bundle: string } = {
    // A CommonJS bundle has no such thing, which tells it from the sources.
    sourceFolder: import.meta.dirname,
    bundle: process.argv[1] ?? "",
  },
): string {
  const { sourceFolder, bundle } = running;
  return sourceFolder === undefined
    ? join(dirname(bundle), BUNDLED_NAME)
    : join(sourceFolder, "extension", "main.ts");
}
