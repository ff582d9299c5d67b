/** Image builds that this host could have been given: the real one with something of it changed, and their records. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import type { SandboxDriver } from "../../controller/sandboxes/sandbox.ts";
import { buildImage } from "../../sandbox-image/build.ts";
import { testLabel } from "../../scripts/leftovers.ts";
import {
  commit,
  fileOf,
  imageWithLabels,
  labelsOfImage,
  putFiles,
  removeImage,
  scratchContainer,
  tagged,
} from "./engine.ts";

const RECORD = fileURLToPath(new URL("../../dist/image-manifest.json", import.meta.url));
export const BRIDGE = "/opt/holdfast/bridge.cjs";
export const MANIFEST = "/opt/holdfast/manifest.json";
const PIN_LABEL = "dev.holdfast.pin";

interface Record {
  tag?: string;
  imageId: string;
  manifestSha256: string;
  manifest: { files: Array<{ path: string; sha256: string }> };
}

async function realRecord(): Promise<Record> {
  return JSON.parse(await readFile(RECORD, "utf8")) as Record;
}

/** A folder in the place of `dist`, whose record names that build. */
async function distOf(record: Record): Promise<string> {
  const folder = await mkdtemp("/tmp/hf-dist-");
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "image-manifest.json"), JSON.stringify(record));
  return folder;
}

/** The real build under another pin label. */
export async function withPinLabel(label: string): Promise<string> {
  const record = await realRecord();
  const imageId = await commit(await scratchContainer(record.imageId), { [PIN_LABEL]: label });
  return distOf({ ...record, imageId });
}

/** The real files over an image that never had a pin label. */
export async function withoutPinLabel(): Promise<string> {
  const record = await realRecord();
  const { "dev.holdfast.recipe": recipe = "" } = await labelsOfImage(record.imageId);
  const labels = ["dev.holdfast.image=runtime", `dev.holdfast.recipe=${recipe}`];
  const runtime = await imageWithLabels(labels);
  if (runtime === null) throw new Error("the runtime image below the sandbox image is not there");
  const source = await scratchContainer(record.imageId);
  const [bridge, manifest] = await Promise.all([fileOf(source, BRIDGE), fileOf(source, MANIFEST)]);
  const target = await scratchContainer(runtime);
  await putFiles(target, [plain(BRIDGE, bridge), plain(MANIFEST, manifest)]);
  return distOf({ ...record, imageId: await commit(target, {}) });
}

/** A whole build, label and record included, around a bridge that was changed: an honest build of another version. */
export async function withBridge(change: (bundle: string) => string): Promise<string> {
  const record = await realRecord();
  const container = await scratchContainer(record.imageId);
  const bridge = Buffer.from(change((await fileOf(container, BRIDGE)).toString("utf8")));
  const digest = createHash("sha256").update(bridge).digest("hex");
  const [known] = record.manifest.files.filter(({ path }) => path === BRIDGE);
  const before = await fileOf(container, MANIFEST);
  const manifest = Buffer.from(before.toString("utf8").replace(known?.sha256 ?? "", digest));
  await putFiles(container, [plain(BRIDGE, bridge), plain(MANIFEST, manifest)]);
  const files = record.manifest.files.map((file) => (file === known ? { ...file, sha256: digest } : file));
  return distOf({
    imageId: await commit(container, {}),
    manifestSha256: createHash("sha256").update(manifest).digest("hex"),
    manifest: { ...record.manifest, files },
  });
}

/** An honest build with another pinned version of Claude Code; its layer is kept, so only the first one takes long. */
export async function withClaude(claude: string): Promise<string> {
  const outFolder = await mkdtemp("/tmp/hf-dist-");
  onTestFinished(() => rm(outFolder, { recursive: true, force: true }));
  const tag = `holdfast/sandbox:test-${randomUUID().slice(0, 8)}`;
  const { imageId } = await buildImage({
    socketPath: engineSocket(process.env.DOCKER_HOST),
    claude,
    tag,
    outFolder,
    labels: { [testLabel]: process.env.HOLDFAST_TEST_RUN ?? "none" },
  });
  onTestFinished(() => removeImage(imageId));
  return outFolder;
}

/** Replaces a text that the bundle has exactly once; groups of a pattern are at the replacement's hand. */
export function replacing(text: string | RegExp, replacement: string): (bundle: string) => string {
  return (bundle) => {
    if (bundle.split(text).length !== 2 + groupsOf(text))
      throw new Error(`the bridge does not have ${text} exactly once`);
    return bundle.replace(text, replacement);
  };
}

/** A pattern's groups are among the pieces that it splits a text into. */
function groupsOf(text: string | RegExp): number {
  return typeof text === "string" ? 0 : (new RegExp(`${text.source}|`).exec("")?.length ?? 1) - 1;
}

export function plain(path: string, bytes: Buffer) {
  return { kind: "bytes" as const, path: path.slice(1), mode: 0o644, bytes };
}

export interface Counts {
  creates: number;
  starts: number;
}

/** The docker driver with its calls counted, and something done to each container right after it was made. */
export function tampering(
  drivers: SandboxDriver[],
  counts: Counts,
  tamper: (containerId: string) => Promise<string | undefined>,
): SandboxDriver[] {
  return drivers.map((driver) => ({
    ...driver,
    async create(spec) {
      const made = await driver.create(spec);
      counts.creates += 1;
      return { ...made, containerId: (await tamper(made.containerId)) ?? made.containerId };
    },
    async start(spec, containerId) {
      counts.starts += 1;
      await driver.start(spec, containerId);
    },
  }));
}

/** The real build under a tag of this test alone. */
export async function withTag(): Promise<{ tag: string; imageId: string; distDirectory: string }> {
  const record = await realRecord();
  const tag = `holdfast/test:${randomBytes(6).toString("hex")}`;
  await tagged(record.imageId, tag);
  return { tag, imageId: record.imageId, distDirectory: await distOf({ ...record, tag }) };
}

/** The real build's record in a folder of the test's own, which it may replace. */
export async function ownDist(): Promise<string> {
  return distOf(await realRecord());
}
