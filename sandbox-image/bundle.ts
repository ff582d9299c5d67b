// The bridge as one file: bundled, minified, and asked for its pin; the extension that Pi gets as another one beside it.
// And the pinned CLIs on the host, by npm. Needs no engine, so that sandboxes that are plain processes can use it too.

import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build } from "esbuild";
import { runCommand } from "./command.ts";
import { sha256Of } from "./digest.ts";
import { withLock } from "./lock.ts";
import { CLI_PINS } from "./pins.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));
const PIN_TIMEOUT_MS = 10_000;
const NPM_TIMEOUT_MS = 600_000;
const LOCK_WAIT_MS = 600_000;

/**
 * Bundles to `outFile` in one step seen by others (written aside, then renamed). One CommonJS file starts twice as
 * quickly as the modules it is made of. Returns its bytes. `beside` names what stands beside it in a sandbox: a comment
 * with their digests makes another bridge of it, so whoever trusts this file's bytes trusts theirs.
 */
export async function bundleBridge(options: {
  entry: string;
  outFile: string;
  beside?: Readonly<Record<string, Buffer>>;
}): Promise<Buffer> {
  const beside = Object.entries(options.beside ?? {}).map(([name, bytes]) => `// ${name} ${sha256Of(bytes)}`);
  return bundle(options, "bridge", {
    minify: true,
    format: "cjs",
    // An optional native part of msgpackr, which does without it.
    external: ["msgpackr-extract"],
    banner: { js: beside.join("\n") },
  });
}

/** The module that Pi loads for its permissions; Pi's own packages are there when it does. Returns its bytes. */
export async function bundlePiExtension(options: { entry: string; outFile: string }): Promise<Buffer> {
  return bundle(options, "extension of Pi", { format: "esm", external: ["@earendil-works/*"] });
}

async function bundle(
  options: { entry: string; outFile: string },
  what: string,
  how: BuildOptions,
): Promise<Buffer> {
  if (!existsSync(options.entry))
    throw new Error(`the entry file of the ${what} does not exist: ${options.entry}`);
  const result = await build({
    ...how,
    entryPoints: [options.entry],
    // Paths within the bytes are relative to it: equal sources make equal bytes, wherever it is called.
    absWorkingDir: PROJECT,
    bundle: true,
    platform: "node",
    target: "node24",
    write: false,
    logLevel: "silent",
    legalComments: "none",
  });
  const bytes = Buffer.from(result.outputFiles?.[0]?.contents ?? []);
  if (bytes.length === 0) throw new Error(`the bundle of the ${what} is empty`);
  const old = await readFile(options.outFile).catch(() => undefined);
  if (old?.equals(bytes) !== true) await replaceFile(options.outFile, bytes);
  return bytes;
}

/** What the built bridge says its pin is. The pin's one place is the protocol; nothing repeats it here. */
export async function pinOfBridge(options: { node: string; bridge: string }): Promise<string> {
  const env = { PATH: "/usr/bin:/bin" };
  const end = await runCommand(options.node, [options.bridge, "--pin"], { timeoutMs: PIN_TIMEOUT_MS, env });
  const pin = end.tail.trim();
  if (!end.isSuccess || !/^[\w.-]+=\d+$/.test(pin)) {
    throw new Error(
      `the built bridge does not answer to --pin with one pin; it said:\n${end.tail.slice(0, 500)}`,
    );
  }
  return pin;
}

/** Installs the locked CLIs when the lock file has changed since. Resolves to their node_modules folder. */
export async function ensureClis(options: {
  folder: string;
  /** npm's own script, run by `node`; undefined: the program `npm` in PATH. */
  npm: { script: string; node: string } | undefined;
  report: (line: string) => void;
}): Promise<string> {
  refuseOtherPlatforms();
  const modules = join(options.folder, "node_modules");
  const stamp = join(modules, ".holdfast-installed");
  const lockSha256 = sha256Of(await readFile(join(options.folder, "package-lock.json")));
  const isInstalled = async (): Promise<boolean> => {
    if ((await readFile(stamp, "utf8").catch(() => "")) !== lockSha256) return false;
    return CLI_PINS.every((pin) => existsSync(join(modules, pin.package, pin.entry)));
  };
  if (await isInstalled()) return modules;
  const onWait = (): void => options.report("another process is installing the CLIs: waiting");
  await withLock(`holdfast-clis:${options.folder}`, { waitMs: LOCK_WAIT_MS, onWait }, async () => {
    if (await isInstalled()) return;
    options.report("installing the pinned CLIs");
    const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    const [file, prefix] = options.npm === undefined ? ["npm", []] : [options.npm.node, [options.npm.script]];
    const end = await runCommand(file, [...prefix, ...args], {
      timeoutMs: NPM_TIMEOUT_MS,
      cwd: options.folder,
    });
    if (!end.isSuccess) throw new Error(`npm ci of the CLIs failed:\n${end.tail.trim()}`);
    for (const pin of CLI_PINS) {
      if (!existsSync(join(modules, pin.package, pin.entry)))
        throw new Error(`npm did not deliver ${pin.cli} ${pin.version}`);
    }
    await replaceFile(stamp, Buffer.from(lockSha256));
  });
  return modules;
}

/** The pinned CLIs exist for Linux on x64 alone; said before npm says it less clearly. */
export function refuseOtherPlatforms(platform: string = process.platform, arch: string = process.arch): void {
  if (platform === "linux" && arch === "x64") return;
  throw new Error(`the pinned CLIs exist for linux-x64 only, and this is ${platform}-${arch}`);
}

/** Written aside and renamed: a reader sees the old bytes or the new ones. */
export async function replaceFile(path: string, bytes: Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.${process.pid}.${Date.now()}`;
  try {
    await writeFile(aside, bytes);
    await rename(aside, path);
  } finally {
    await rm(aside, { force: true });
  }
}
