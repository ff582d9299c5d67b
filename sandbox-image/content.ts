// The files of the image's upper layers as tar entries, with the modes that they have in the image whatever they
// have on the host, and the manifest's lines for those that matter. Sends nothing to an engine.

import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { sha256OfFile } from "./digest.ts";
import { IMAGE_NODE, IMAGE_ROOT, PI_EXTENSION } from "./layout.ts";
import type { PinnedFolder } from "./libraries.ts";
import type { ManifestFile } from "./manifest.ts";
import { type CliPin, commandOf, isLeftOut } from "./pins.ts";
import type { TarEntry } from "./tar.ts";

/** Where the build file expects what goes to /opt/holdfast. */
const CONTENT = "content";
/**
 * A program runs for anyone and is read by root alone: a slot's tools then can't read the environment of a server of their
 * own user. A script is read by the Node that runs it, and nothing secret is in its environment.
 */
const ENTRY_MODES: Readonly<Record<CliPin["kind"], number>> = { program: 0o711, script: 0o644 };

/** What a layer brings: what is sent to the builder, and the manifest's lines for it. */
export interface LayerContent {
  context: TarEntry[];
  files: ManifestFile[];
}

export async function nodeContent(node: string): Promise<LayerContent> {
  return {
    context: [folder(CONTENT), { kind: "file", path: `${CONTENT}/node`, mode: 0o755, source: node }],
    files: [await describeFile(node, IMAGE_NODE, 0o755)],
  };
}

/** One CLI, from the folder that holds the lock file and its node_modules. */
export async function cliContent(options: {
  clisFolder: string;
  pin: CliPin;
  folders: readonly PinnedFolder[];
}): Promise<LayerContent> {
  const { clisFolder, pin, folders } = options;
  const context = [folder(CONTENT), folder(`${CONTENT}/clis`), folder(`${CONTENT}/clis/${pin.cli}`)];
  const made = new Set<string>();
  for (const { folder: from } of folders) {
    for (const parent of parentsOf(from)) {
      if (!made.has(parent)) context.push(folder(`${CONTENT}/clis/${pin.cli}/${parent}`));
      made.add(parent);
    }
    const target = `${CONTENT}/clis/${pin.cli}/${from}`;
    context.push(
      ...(await entriesBelow({
        source: join(clisFolder, from),
        target,
        pin,
        isOwn: from === `node_modules/${pin.package}`,
        below: "",
      })),
    );
  }
  const entry = join(clisFolder, "node_modules", pin.package, pin.entry);
  return { context, files: [await describeFile(entry, imageEntry(pin), ENTRY_MODES[pin.kind])] };
}

/** The bridge, the extension that Pi gets, and the manifest that speaks of them. */
export function bridgeContent(options: {
  bridge: Buffer;
  piExtension: Buffer;
  manifest: Buffer;
}): TarEntry[] {
  const file = (name: string, bytes: Buffer): TarEntry => ({
    kind: "bytes",
    path: `${CONTENT}/${name}`,
    mode: 0o644,
    bytes,
  });
  return [
    folder(CONTENT),
    file("bridge.cjs", options.bridge),
    file(PI_EXTENSION, options.piExtension),
    file("manifest.json", options.manifest),
  ];
}

/** What runs a CLI in the image. */
export function imageCommand(pin: CliPin): string[] {
  return commandOf(pin, { node: IMAGE_NODE, modules: `${IMAGE_ROOT}/clis/${pin.cli}/node_modules` });
}

function imageEntry(pin: CliPin): string {
  return imageCommand(pin).at(-1) ?? "";
}

/** Four octal digits, as the manifest has them. */
export function octalMode(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

async function describeFile(source: string, path: string, mode: number): Promise<ManifestFile> {
  const { size } = await lstat(source);
  return { path, sha256: await sha256OfFile(source), mode: octalMode(mode), sizeBytes: size };
}

/** The files of one package: not those of the packages in it, and not what the pin leaves out. */
async function entriesBelow(options: {
  source: string;
  target: string;
  pin: CliPin;
  /** The pin's own package, not one of its libraries. */
  isOwn: boolean;
  /** Path below the package's folder; "" for the folder itself. */
  below: string;
}): Promise<TarEntry[]> {
  const { source, target, pin, isOwn, below } = options;
  const entries: TarEntry[] = [];
  for (const name of (await readdir(join(source, below))).sort()) {
    const inside = below === "" ? name : `${below}/${name}`;
    if (name === "node_modules" || isLeftOut(pin, inside, isOwn)) continue;
    const from = join(source, inside);
    const path = `${target}/${inside}`;
    const fact = await lstat(from);
    if (fact.isDirectory()) {
      entries.push(folder(path), ...(await entriesBelow({ ...options, below: inside })));
    } else if (fact.isSymbolicLink()) {
      entries.push({ kind: "link", path, mode: 0o777, target: await readlink(from) });
    } else if (fact.isFile()) {
      const isEntry = isOwn && inside === pin.entry;
      const mode = isEntry ? ENTRY_MODES[pin.kind] : fact.mode & 0o111 ? 0o755 : 0o644;
      entries.push({ kind: "file", path, mode, source: from });
    }
  }
  return entries;
}

/** `a`, `a/b` and `a/b/c` of `a/b/c`. */
function parentsOf(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

function folder(path: string): TarEntry {
  return { kind: "folder", path, mode: 0o755 };
}
