// Gives the image that the rest is built upon: assembled from Debian packages, or a named image made to fit. Either is
// kept under a name made of the digest of its recipe, so it is made once an engine.

import { readFile } from "node:fs/promises";
import { rootCertificates } from "node:tls";
import { withAssembledBase } from "./base-assembly.ts";
import { distributionOf, recipeDigest } from "./base-recipe.ts";
import { digestOfValue, sha256Of } from "./digest.ts";
import { buildFrom, findImage, importImage, pullImage } from "./image-store.ts";
import { foreignBaseBuildFile } from "./layout.ts";

const HOST_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt";

export interface BasePlan {
  kind: "assembled" | "named";
  /** For the manifest: digest of the recipe, or the name that was given. */
  source: string;
  /** Names the made base, and is part of the image's inputs. */
  digest: string;
  reference: string;
  make: () => Promise<void>;
}

/** What base it will be, without making it. A named image that the engine lacks is pulled, since its id is needed. */
export async function planBase(options: {
  socketPath: string;
  named: string | undefined;
  report: (line: string) => void;
}): Promise<BasePlan> {
  return options.named === undefined
    ? planAssembled(options)
    : planNamed({ ...options, named: options.named });
}

/** The base's image id; made now if the engine doesn't have it. */
export async function ensureBase(socketPath: string, plan: BasePlan): Promise<string> {
  const already = await findImage(socketPath, plan.reference);
  if (already !== undefined) return already.id;
  await plan.make();
  const made = await findImage(socketPath, plan.reference);
  if (made === undefined) throw new Error(`the engine does not know ${plan.reference} after it was made`);
  return made.id;
}

async function planAssembled(options: {
  socketPath: string;
  report: (line: string) => void;
}): Promise<BasePlan> {
  const osRelease = await readFile("/etc/os-release", "utf8").catch(() => "");
  const distribution = distributionOf(osRelease);
  if (distribution === undefined) {
    throw new Error(
      "a base can be assembled on Debian or Ubuntu only: give one with --base, such as node:24-bookworm-slim",
    );
  }
  const certificates = await hostCertificates();
  const digest = recipeDigest({ distribution, certificatesSha256: sha256Of(certificates) });
  const reference = `holdfast/base:${digest.slice(0, 12)}`;
  const labels = { "dev.holdfast.image": "base", "dev.holdfast.recipe": digest };
  const make = (): Promise<void> =>
    withAssembledBase({ certificates, report: options.report }, (tar) =>
      importImage(options.socketPath, { reference, labels, tar }),
    );
  return { kind: "assembled", source: digest, digest, reference, make };
}

async function planNamed(options: {
  socketPath: string;
  named: string;
  report: (line: string) => void;
}): Promise<BasePlan> {
  let image = await findImage(options.socketPath, options.named);
  if (image === undefined) {
    options.report(`pulling ${options.named}`);
    await pullImage(options.socketPath, options.named);
    image = await findImage(options.socketPath, options.named);
  }
  if (image === undefined) throw new Error(`the engine does not have ${options.named} and could not get it`);
  const buildFile = foreignBaseBuildFile();
  const digest = digestOfValue({ imageId: image.id, buildFile });
  const reference = `holdfast/base:${digest.slice(0, 12)}`;
  const labels = { "dev.holdfast.image": "base", "dev.holdfast.recipe": digest };
  const make = async (): Promise<void> => {
    options.report(`making ${options.named} fit (git, ripgrep, tini, certificates where missing)`);
    const base = options.named;
    await buildFrom(options.socketPath, {
      reference,
      buildFile,
      base,
      context: [],
      labels,
      hasNetwork: true,
    });
  };
  return { kind: "named", source: options.named, digest, reference, make };
}

/** The host's own bundle, so that what the host trusts is trusted inside; else the list that Node brings. */
async function hostCertificates(): Promise<Buffer> {
  const bundle = await readFile(HOST_CERTIFICATES).catch(() => undefined);
  return bundle ?? Buffer.from(`${rootCertificates.join("\n")}\n`);
}
