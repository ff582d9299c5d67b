/**
 * What the host verified about a sandbox's helper, and the verdict over it. Pure: the measuring is the controller's.
 */
import * as z from "zod/mini";
import { Count, Digest } from "./ids.ts";
import { CliName } from "./locator.ts";
import { HELPER_FEATURES, HELPER_PIN, PINNED_VERSION, readPin } from "./pin.ts";

/** How the bridge's life before this one ended: with its mark of a clean stop, without it, or there was none. */
export const EarlierEnd = z.enum(["none", "clean", "unclean"]);
export type EarlierEnd = z.infer<typeof EarlierEnd>;

/** What the running helper says about itself over the link. Untrusted, and compared with what the host measured. */
export const HelperReport = z.object({
  pin: z.string().check(z.maxLength(512)),
  features: z.array(z.string().check(z.maxLength(64))).check(z.maxLength(64)),
  clis: z
    .array(z.object({ cli: CliName, version: z.string().check(z.maxLength(64)) }))
    .check(z.maxLength(16)),
  /** HMAC-SHA-256 with the sandbox's token over nonce and helper digest, hex. */
  proof: Digest,
  helperSha256: Digest,
  epoch: Count,
  earlierEnd: EarlierEnd,
});
export type HelperReport = z.infer<typeof HelperReport>;

export interface AttestationFacts {
  /** What this host's own build expects. */
  expected: {
    imageId: string | null;
    helperSha256: string;
    manifestSha256: string | null;
    clis: ReadonlyArray<{ cli: string; version: string }>;
    /** The proof that a helper with these bytes and this token must give. */
    proof: string;
  };
  /** As measured by the host; null where this kind of sandbox has no such thing. */
  measured: {
    imageId: string | null;
    pinLabel: string | null;
    /** The helper's bytes in the sandbox's own file system; a text when they could not be measured. */
    helper: { sha256: string } | { problem: string };
    manifest: { sha256: string } | { problem: string } | null;
    /** Mounts that are not on the allow list. */
    foreignMounts: readonly string[];
    /** Changes over the image's own code in the sandbox's file system: CLIs, node, programs, libraries. */
    changedCode: readonly string[];
  };
  /** False for `process` sandboxes, which have no image. */
  hasImage: boolean;
  report: HelperReport;
}

/** Every reason for not trusting the helper; none means that it is ready. */
export function attest(facts: AttestationFacts): string[] {
  const reasons: string[] = [];
  const { expected, measured, report } = facts;
  if (facts.hasImage) {
    reasons.push(...pinReasons("the image label", measured.pinLabel));
    // Nothing measured against nothing expected is no match.
    if (measured.imageId === null || measured.imageId !== expected.imageId)
      reasons.push("the container's image is not the one that this host built");
    if (measured.manifest === null) reasons.push("the image has no manifest");
    else if ("problem" in measured.manifest)
      reasons.push(`the manifest can't be measured: ${measured.manifest.problem}`);
    else if (measured.manifest.sha256 !== expected.manifestSha256)
      reasons.push("the manifest's bytes differ from the built one");
  }
  for (const mount of measured.foreignMounts) reasons.push(`a mount is not on the allow list: ${mount}`);
  for (const change of measured.changedCode) reasons.push(`a file of the image was changed: ${change}`);
  if ("problem" in measured.helper)
    reasons.push(`the helper's bytes can't be measured: ${measured.helper.problem}`);
  else if (measured.helper.sha256 !== expected.helperSha256)
    reasons.push("the helper's bytes differ from the pinned ones");
  reasons.push(...pinReasons("the running helper", report.pin));
  if (report.helperSha256 !== expected.helperSha256)
    reasons.push("the running helper reports other bytes than the pinned ones");
  if (report.proof !== expected.proof) reasons.push("the answer to the challenge is wrong");
  reasons.push(...featureReasons(report.features));
  for (const { cli, version } of expected.clis) {
    const said = report.clis.filter((entry) => entry.cli === cli);
    if (said.length !== 1) reasons.push(`the helper names ${cli} ${said.length} times`);
    else if (said[0]?.version !== version)
      reasons.push(`${cli} is ${said[0]?.version ?? "?"}, pinned is ${version}`);
  }
  return reasons;
}

function pinReasons(where: string, text: string | null): string[] {
  const reading = readPin(text);
  switch (reading.kind) {
    case "missing":
      return [`${where} names no helper pin`];
    case "repeated":
      return [
        `${where} names the helper pin ${reading.versions.length} times (${reading.versions.join(", ")})`,
      ];
    case "one":
      if (reading.version === PINNED_VERSION && text === HELPER_PIN) return [];
      return [`${where} says ${text ?? ""}, this host needs ${HELPER_PIN}`];
    default: {
      const never: never = reading;
      throw new TypeError(`reading ${String(never)} is not handled`);
    }
  }
}

function featureReasons(said: readonly string[]): string[] {
  const reasons: string[] = [];
  for (const feature of HELPER_FEATURES) {
    const times = said.filter((entry) => entry === feature).length;
    if (times !== 1) reasons.push(`the helper states the feature ${feature} ${times} times`);
  }
  for (const extra of said) {
    if (!HELPER_FEATURES.some((feature) => feature === extra))
      reasons.push(`the helper states an unknown feature: ${extra}`);
  }
  return reasons;
}
