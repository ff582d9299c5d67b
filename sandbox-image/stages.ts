// The two upper layers of the image: node with the CLIs, then the bridge with the manifest. Each is built by the same
// build file over what lies below. Doesn't decide whether a build is needed.

import * as z from "zod";
import type { BasePlan } from "./base-image.ts";
import { bridgeContent, imageBinary, octalMode, runtimeContent } from "./content.ts";
import { digestOfValue, sha256Of } from "./digest.ts";
import { buildFrom, dropImage, findImage, type ImageFact, readImageFile, runInImage } from "./image-store.ts";
import { IMAGE_BRIDGE, IMAGE_NODE, IMAGE_TINI } from "./layout.ts";
import {
  type ImageManifest,
  type ImageRecord,
  type ManifestFile,
  manifestBytes,
  manifestFileSchema,
} from "./manifest.ts";
import { CLI_PINS } from "./pins.ts";

/** Carries the digests of the runtime's large files, so that a new bridge doesn't make us read them again. */
const FILES_LABEL = "dev.holdfast.files";

export interface Runtime {
  reference: string;
  files: ManifestFile[];
}

/** Node and the CLIs over the base; found by its digest, or built. `modules` is asked for only when it is built. */
export async function ensureRuntime(options: {
  socketPath: string;
  base: BasePlan;
  node: string;
  nodeVersion: string;
  buildFile: string;
  runtimeDigest: string;
  modules: () => Promise<string>;
  report: (line: string) => void;
}): Promise<Runtime> {
  const reference = `holdfast/runtime:${options.runtimeDigest.slice(0, 12)}`;
  const already = await findImage(options.socketPath, reference);
  if (already !== undefined) return { reference, files: filesOf(already) };
  const modules = await options.modules();
  options.report("building the layer of node and the CLIs");
  const { context, files } = await runtimeContent({ node: options.node, modules, pins: CLI_PINS });
  const tini = await readImageFile(options.socketPath, options.base.reference, IMAGE_TINI);
  files.push({
    path: IMAGE_TINI,
    sha256: sha256Of(tini.bytes),
    mode: octalMode(tini.mode),
    sizeBytes: tini.bytes.length,
  });
  const built = await buildFrom(options.socketPath, {
    reference,
    buildFile: options.buildFile,
    base: options.base.reference,
    context,
    labels: { "dev.holdfast.image": "runtime", [FILES_LABEL]: JSON.stringify(files) },
    hasNetwork: false,
  });
  try {
    await refuseUnfitRuntime(options.socketPath, built.id, options.nodeVersion);
  } catch (cause) {
    await dropImage(options.socketPath, reference);
    throw cause;
  }
  return { reference, files: filesOf(built) };
}

/** What the runtime is made of besides its base. */
export function runtimeDigestOf(inputs: {
  baseDigest: string;
  buildFile: string;
  clisLock: string;
  nodeVersion: string;
}): string {
  return digestOfValue({ ...inputs, pins: CLI_PINS });
}

/** Bridge and manifest over the runtime, under the wanted name. */
export async function buildSandbox(options: {
  socketPath: string;
  runtime: Runtime;
  base: ImageManifest["base"];
  buildFile: string;
  bridge: Buffer;
  pin: string;
  nodeVersion: string;
  inputs: string;
  tag: string;
  labels: Record<string, string>;
  builtAt: number;
}): Promise<ImageRecord> {
  const bridgeFile: ManifestFile = {
    path: IMAGE_BRIDGE,
    sha256: sha256Of(options.bridge),
    mode: "0644",
    sizeBytes: options.bridge.length,
  };
  const manifest: ImageManifest = {
    formatVersion: 1,
    pin: options.pin,
    base: options.base,
    builtAt: options.builtAt,
    nodeVersion: options.nodeVersion,
    inputs: options.inputs,
    files: [bridgeFile, ...options.runtime.files],
    clis: CLI_PINS.map((pin) => ({ cli: pin.cli, version: pin.version, binary: imageBinary(pin) })),
  };
  const bytes = manifestBytes(manifest);
  const built = await buildFrom(options.socketPath, {
    reference: options.tag,
    buildFile: options.buildFile,
    base: options.runtime.reference,
    context: bridgeContent({ bridge: options.bridge, manifest: bytes }),
    labels: {
      ...options.labels,
      [FILES_LABEL]: "",
      "dev.holdfast.image": "sandbox",
      "dev.holdfast.pin": options.pin,
      "dev.holdfast.bridge-sha256": bridgeFile.sha256,
      "dev.holdfast.manifest-sha256": sha256Of(bytes),
      "dev.holdfast.inputs": options.inputs,
    },
    hasNetwork: false,
  });
  return { imageId: built.id, tag: options.tag, manifestSha256: sha256Of(bytes), manifest };
}

/** A base without a library that node or a CLI needs is found here, not at a sandbox's first start. */
async function refuseUnfitRuntime(socketPath: string, image: string, nodeVersion: string): Promise<void> {
  const expected = [
    { program: IMAGE_NODE, version: nodeVersion },
    ...CLI_PINS.map((pin) => ({ program: imageBinary(pin), version: pin.version })),
  ];
  for (const { program, version } of expected) {
    const { exitCode, output } = await runInImage(socketPath, image, [program, "--version"]);
    if (exitCode !== 0 || !output.includes(version)) {
      throw new Error(
        `${program} --version in the image: exit ${exitCode}, not ${version}:\n${output.slice(-1_000)}`,
      );
    }
  }
}

function filesOf(runtime: ImageFact): ManifestFile[] {
  return z.array(manifestFileSchema).parse(JSON.parse(runtime.labels[FILES_LABEL] ?? "null"));
}
