import { expect, test } from "vitest";
import {
  type ImageManifest,
  imageRecordSchema,
  manifestBytes,
  parseManifest,
} from "../../sandbox-image/manifest.ts";

const digest = "a".repeat(64);
const manifest: ImageManifest = {
  formatVersion: 2,
  pin: "some-pin=1",
  base: { kind: "assembled", source: digest, imageId: `sha256:${digest}` },
  builtAt: 1_700_000_000_000,
  nodeVersion: "24.0.0",
  inputs: digest,
  files: ["/opt/holdfast/bridge.cjs", "/opt/holdfast/node", "/usr/bin/tini"].map((path) => ({
    path,
    sha256: digest,
    mode: "0755",
    sizeBytes: 1,
  })),
  clis: [{ cli: "opencode", version: "1.0.0", command: ["/opt/holdfast/clis/opencode"] }],
};

test("a manifest survives the way into the image and back", () => {
  expect(parseManifest(manifestBytes(manifest))).toEqual(manifest);
});

test("a field of a later format is ignored, another format is refused", () => {
  const bytes = (extra: object): Buffer => Buffer.from(JSON.stringify({ ...manifest, ...extra }));
  expect(parseManifest(bytes({ later: true }))).toEqual(manifest);
  expect(() => parseManifest(bytes({ formatVersion: 1 }))).toThrow();
});

test.each([
  { mode: "755" },
  { mode: "0999" },
  { sha256: digest.toUpperCase() },
  { sha256: "" },
  { path: "opt/holdfast/node" },
  { sizeBytes: -1 },
])("a file line with %o is refused", (wrong) => {
  const files = manifest.files.map((file, index) => (index === 0 ? { ...file, ...wrong } : file));
  expect(() => manifestBytes({ ...manifest, files })).toThrow();
});

test("the host's record names the image by its id", () => {
  const record = {
    imageId: `sha256:${digest}`,
    tag: "holdfast/sandbox:dev",
    manifestSha256: digest,
    manifest,
  };
  expect(imageRecordSchema.parse(record)).toEqual(record);
  expect(imageRecordSchema.safeParse({ ...record, imageId: digest }).success).toBe(false);
});
