// The manifest: what a sandbox image is made of, in the image at /opt/holdfast/manifest.json, and on the host beside
// the id of the image (dist/image-manifest.json) for the controller to compare. Says what was built; verifies nothing.

import * as z from "zod";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const imageId = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const absolutePath = z.string().startsWith("/");

export const manifestFileSchema = z.object({
  path: absolutePath,
  sha256,
  /** Four octal digits, such as 0711. */
  mode: z.string().regex(/^[0-7]{4}$/),
  sizeBytes: z.int().nonnegative(),
});

const imageManifestSchema = z.object({
  formatVersion: z.literal(2),
  /** The helper pin that the built bridge itself answers to `--pin`. */
  pin: z.string().min(1),
  base: z.object({
    /** `assembled`: made of Debian packages on the host; `named`: an image given by its name. */
    kind: z.enum(["assembled", "named"]),
    /** The recipe's digest, or the name that was given. */
    source: z.string().min(1),
    imageId,
  }),
  builtAt: z.int().positive(),
  nodeVersion: z.string().min(1),
  /** Digest of all that the build was made from; equal inputs need no second build. */
  inputs: sha256,
  /** Each file that matters to trust: bridge, Pi's extension, node, tini, and what each CLI starts with. */
  files: z.array(manifestFileSchema).min(3),
  /** One version a CLI. A command is a program, or Node with a script. */
  clis: z.array(z.object({ cli: z.string(), version: z.string(), command: z.array(absolutePath).min(1) })),
});

/** `dist/image-manifest.json` on the host. */
export const imageRecordSchema = z.object({
  imageId,
  tag: z.string().min(1),
  /** Digest of the bytes of the manifest in the image; also a label of the image. */
  manifestSha256: sha256,
  manifest: imageManifestSchema,
});

export type ManifestFile = z.infer<typeof manifestFileSchema>;
export type ImageManifest = z.infer<typeof imageManifestSchema>;
export type ImageRecord = z.infer<typeof imageRecordSchema>;

/** The bytes that go into the image: stable field order, one line a value. */
export function manifestBytes(manifest: ImageManifest): Buffer {
  return Buffer.from(`${JSON.stringify(imageManifestSchema.parse(manifest), null, 2)}\n`);
}

export function parseManifest(bytes: Buffer): ImageManifest {
  return imageManifestSchema.parse(JSON.parse(bytes.toString("utf8")));
}
