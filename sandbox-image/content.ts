// The files of the image's two upper layers as tar entries, with the modes that they have in the image whatever they
// have on the host, and the manifest's lines for those that matter. Sends nothing to an engine.

import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { sha256OfFile } from "./digest.ts";
import { IMAGE_NODE, IMAGE_ROOT } from "./layout.ts";
import type { ManifestFile } from "./manifest.ts";
import type { CliPin } from "./pins.ts";
import type { TarEntry } from "./tar.ts";

/** Where the build file expects what goes to /opt/holdfast. */
const CONTENT = "content";
/** Runs for anyone, is read by root alone: a slot's tools then can't read the environment of a server of their own user. */
const CLI_BINARY_MODE = 0o711;

/** Node and the CLIs. */
export async function runtimeContent(options: {
  node: string;
  modules: string;
  pins: readonly CliPin[];
}): Promise<{ context: TarEntry[]; files: ManifestFile[] }> {
  const context: TarEntry[] = [
    folder(CONTENT),
    { kind: "file", path: `${CONTENT}/node`, mode: 0o755, source: options.node },
    folder(`${CONTENT}/clis`),
  ];
  const files = [await describeFile(options.node, IMAGE_NODE, 0o755)];
  for (const pin of options.pins) {
    const source = join(options.modules, pin.package);
    const binary = join(source, pin.binary);
    const target = `${CONTENT}/clis/${pin.cli}`;
    context.push(folder(target), ...(await entriesBelow(source, target, binary)));
    files.push(await describeFile(binary, imageBinary(pin), CLI_BINARY_MODE));
  }
  return { context, files };
}

/** The bridge and the manifest that speaks of it. */
export function bridgeContent(options: { bridge: Buffer; manifest: Buffer }): TarEntry[] {
  return [
    folder(CONTENT),
    { kind: "bytes", path: `${CONTENT}/bridge.cjs`, mode: 0o644, bytes: options.bridge },
    { kind: "bytes", path: `${CONTENT}/manifest.json`, mode: 0o644, bytes: options.manifest },
  ];
}

/** The path of a CLI's binary in the image. */
export function imageBinary(pin: CliPin): string {
  return `${IMAGE_ROOT}/clis/${pin.cli}/${pin.binary}`;
}

/** Four octal digits, as the manifest has them. */
export function octalMode(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

async function describeFile(source: string, path: string, mode: number): Promise<ManifestFile> {
  const { size } = await lstat(source);
  return { path, sha256: await sha256OfFile(source), mode: octalMode(mode), sizeBytes: size };
}

async function entriesBelow(source: string, target: string, binary: string): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  for (const name of (await readdir(source)).sort()) {
    const from = join(source, name);
    const path = `${target}/${name}`;
    const fact = await lstat(from);
    if (fact.isDirectory()) {
      entries.push(folder(path), ...(await entriesBelow(from, path, binary)));
    } else if (fact.isSymbolicLink()) {
      entries.push({ kind: "link", path, mode: 0o777, target: await readlink(from) });
    } else if (fact.isFile()) {
      const mode = from === binary ? CLI_BINARY_MODE : fact.mode & 0o111 ? 0o755 : 0o644;
      entries.push({ kind: "file", path, mode, source: from });
    }
  }
  return entries;
}

function folder(path: string): TarEntry {
  return { kind: "folder", path, mode: 0o755 };
}
