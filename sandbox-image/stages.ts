// The upper layers of the image: node, one a CLI, then the bridge with the manifest. Each is built by the same build file
// over what lies below, and is kept under a digest of all that it is made of, so that a CLI of another version costs its
// own layer and those above. Doesn't decide whether a build is needed.

import * as z from "zod";
import type { BasePlan } from "./base-image.ts";
import {
  bridgeContent,
  cliContent,
  imageCommand,
  type LayerContent,
  nodeContent,
  octalMode,
} from "./content.ts";
import { digestOfValue, sha256Of } from "./digest.ts";
import { buildFrom, dropImage, findImage, type ImageFact, readImageFile, runInImage } from "./image-store.ts";
import { IMAGE_BRIDGE, IMAGE_NODE, IMAGE_PI_EXTENSION, IMAGE_TINI } from "./layout.ts";
import { foldersOf, type LockedPackages, type PinnedFolder } from "./libraries.ts";
import {
  type ImageManifest,
  type ImageRecord,
  type ManifestFile,
  manifestBytes,
  manifestFileSchema,
} from "./manifest.ts";
import type { CliPin } from "./pins.ts";

/** Carries the digests of the large files so far, so that a new layer doesn't make us read those below again. */
const FILES_LABEL = "dev.holdfast.files";

/** A layer below the bridge's. */
interface Layer {
  /** Of all that it and what lies below is made of. */
  digest: string;
  /** Null: node. */
  cli: { pin: CliPin; folders: PinnedFolder[] } | null;
}

export interface Runtime {
  reference: string;
  files: ManifestFile[];
}

/** What the image is made of below the bridge, from the bottom to the top. */
export function planLayers(inputs: {
  baseDigest: string;
  buildFile: string;
  nodeVersion: string;
  pins: readonly CliPin[];
  locked: LockedPackages;
}): Layer[] {
  const { baseDigest, buildFile, nodeVersion, pins, locked } = inputs;
  const layers: Layer[] = [{ digest: digestOfValue({ baseDigest, buildFile, nodeVersion }), cli: null }];
  for (const pin of pins) {
    const folders = foldersOf(pin, locked);
    const below = layers.at(-1)?.digest;
    layers.push({ digest: digestOfValue({ below, pin, folders }), cli: { pin, folders } });
  }
  return layers;
}

/** The topmost of these layers; what the engine doesn't have is built. `clisFolder` is asked for only then. */
export async function ensureLayers(options: {
  socketPath: string;
  base: BasePlan;
  layers: readonly Layer[];
  node: string;
  nodeVersion: string;
  buildFile: string;
  clisFolder: () => Promise<string>;
  report: (line: string) => void;
}): Promise<Runtime> {
  const { socketPath, layers } = options;
  let built = layers.length;
  let below: Runtime | null = null;
  while (built > 0 && below === null) {
    const reference = referenceOf(layers[built - 1]);
    const found = await findImage(socketPath, reference);
    if (found === undefined) built--;
    else below = { reference, files: filesOf(found) };
  }
  below ??= await baseRuntime(socketPath, options.base);
  for (const layer of layers.slice(built)) below = await buildLayer({ ...options, layer, below });
  return below;
}

function referenceOf(layer: Layer | undefined): string {
  return `holdfast/runtime:${layer?.digest.slice(0, 12)}`;
}

/** The base as what the first layer lies on. */
async function baseRuntime(socketPath: string, base: BasePlan): Promise<Runtime> {
  const tini = await readImageFile(socketPath, base.reference, IMAGE_TINI);
  const file: ManifestFile = {
    path: IMAGE_TINI,
    sha256: sha256Of(tini.bytes),
    mode: octalMode(tini.mode),
    sizeBytes: tini.bytes.length,
  };
  return { reference: base.reference, files: [file] };
}

async function buildLayer(options: {
  socketPath: string;
  layer: Layer;
  below: Runtime;
  node: string;
  nodeVersion: string;
  buildFile: string;
  clisFolder: () => Promise<string>;
  report: (line: string) => void;
}): Promise<Runtime> {
  const { socketPath, layer, below, nodeVersion } = options;
  const clisFolder = layer.cli === null ? null : await options.clisFolder();
  const { pin } = layer.cli ?? { pin: null };
  options.report(
    `building the layer of ${pin === null ? `node ${nodeVersion}` : `${pin.cli} ${pin.version}`}`,
  );
  const content: LayerContent =
    layer.cli === null || clisFolder === null
      ? await nodeContent(options.node)
      : await cliContent({ clisFolder, ...layer.cli });
  const files = [...below.files, ...content.files];
  const reference = referenceOf(layer);
  const built = await buildFrom(socketPath, {
    reference,
    buildFile: options.buildFile,
    base: below.reference,
    context: content.context,
    labels: { "dev.holdfast.image": "runtime", [FILES_LABEL]: JSON.stringify(files) },
    hasNetwork: false,
  });
  try {
    await refuseUnfit(socketPath, built.id, {
      command: pin === null ? [IMAGE_NODE] : imageCommand(pin),
      says: pin === null ? `v${nodeVersion}` : pin.says,
    });
  } catch (cause) {
    await dropImage(socketPath, reference);
    throw cause;
  }
  return { reference, files };
}

/** Bridge, Pi's extension and manifest over the rest, under the wanted name. */
export async function buildSandbox(options: {
  socketPath: string;
  runtime: Runtime;
  pins: readonly CliPin[];
  base: ImageManifest["base"];
  buildFile: string;
  bridge: Buffer;
  piExtension: Buffer;
  pin: string;
  nodeVersion: string;
  inputs: string;
  tag: string;
  labels: Record<string, string>;
  builtAt: number;
}): Promise<ImageRecord> {
  const plainFile = (path: string, bytes: Buffer): ManifestFile => ({
    path,
    sha256: sha256Of(bytes),
    mode: "0644",
    sizeBytes: bytes.length,
  });
  const manifest: ImageManifest = {
    formatVersion: 2,
    pin: options.pin,
    base: options.base,
    builtAt: options.builtAt,
    nodeVersion: options.nodeVersion,
    inputs: options.inputs,
    files: [
      plainFile(IMAGE_BRIDGE, options.bridge),
      plainFile(IMAGE_PI_EXTENSION, options.piExtension),
      ...options.runtime.files,
    ],
    clis: options.pins.map((pin) => ({ cli: pin.cli, version: pin.version, command: imageCommand(pin) })),
  };
  const bytes = manifestBytes(manifest);
  const built = await buildFrom(options.socketPath, {
    reference: options.tag,
    buildFile: options.buildFile,
    base: options.runtime.reference,
    context: bridgeContent({ bridge: options.bridge, piExtension: options.piExtension, manifest: bytes }),
    labels: {
      ...options.labels,
      [FILES_LABEL]: "",
      "dev.holdfast.image": "sandbox",
      "dev.holdfast.pin": options.pin,
      "dev.holdfast.bridge-sha256": sha256Of(options.bridge),
      "dev.holdfast.manifest-sha256": sha256Of(bytes),
      "dev.holdfast.inputs": options.inputs,
    },
    hasNetwork: false,
  });
  return { imageId: built.id, tag: options.tag, manifestSha256: sha256Of(bytes), manifest };
}

/** A base without a library that node or a CLI needs is found here, not at a sandbox's first start. */
async function refuseUnfit(
  socketPath: string,
  image: string,
  expected: { command: readonly string[]; says: string },
): Promise<void> {
  const command = [...expected.command, "--version"];
  const { exitCode, output } = await runInImage(socketPath, image, command);
  const lines = output.split("\n").map((line) => line.trim());
  if (exitCode !== 0 || !lines.includes(expected.says)) {
    throw new Error(
      `${command.join(" ")} in the image: exit ${exitCode}, not "${expected.says}":\n${output.slice(-1_000)}`,
    );
  }
}

function filesOf(runtime: ImageFact): ManifestFile[] {
  return z.array(manifestFileSchema).parse(JSON.parse(runtime.labels[FILES_LABEL] ?? "null"));
}
