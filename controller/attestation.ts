/** Measures a sandbox and challenges its helper; the verdict itself is `protocol/attestation.ts`'s. */
import { createHmac, randomBytes } from "node:crypto";
import { type AttestationFacts, attest, type HelperReport } from "../protocol/attestation.ts";
import { asHoldfastError } from "../protocol/errors.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../protocol/pin.ts";
import type { PinnedBuild } from "./sandboxes/sandbox.ts";

/** @returns every reason for not trusting the helper; none means ready */
export async function attestSandbox(options: {
  pinned: PinnedBuild;
  measured: AttestationFacts["measured"];
  hasImage: boolean;
  token: string;
  challenge(nonce: string): Promise<HelperReport>;
}): Promise<string[]> {
  const nonce = randomBytes(32).toString("hex");
  const report = await options.challenge(nonce).catch(unreadable);
  if (typeof report === "string") return [report];
  const { helperSha256, imageId, manifestSha256, clis } = options.pinned;
  const proof = createHmac("sha256", options.token).update(`${nonce}:${helperSha256}`).digest("hex");
  return attest({
    expected: { imageId, helperSha256, manifestSha256, clis, proof },
    measured: options.measured,
    hasImage: options.hasImage,
    report,
  });
}

/** An answer that is none of this version's is a reason; a link that broke is not. */
function unreadable(error: unknown): string {
  const fault = asHoldfastError(error);
  const isAnswer = ["FRAME_INVALID", "METHOD_UNKNOWN", "REQUEST_INVALID"].includes(fault.code);
  if (isAnswer) return `the helper's answer to the challenge can't be read: ${fault.message}`;
  throw error;
}

/**
 * The reasons that the measuring alone gives, before anything of the sandbox was started: the running helper is taken
 * as if it answered well.
 */
export function attestMeasured(options: {
  pinned: PinnedBuild;
  measured: AttestationFacts["measured"];
  hasImage: boolean;
}): string[] {
  const { helperSha256, imageId, manifestSha256 } = options.pinned;
  const proof = "0".repeat(64);
  return attest({
    expected: { imageId, helperSha256, manifestSha256, clis: [], proof },
    measured: options.measured,
    hasImage: options.hasImage,
    report: {
      pin: HELPER_PIN,
      features: [...HELPER_FEATURES],
      clis: [],
      proof,
      helperSha256,
      epoch: 0,
      earlierEnd: "none",
    },
  });
}

/** The reasons that the running helper's answer alone gives: nothing is measured, its place is taken as the pinned one. */
export function attestAnswer(options: {
  pinned: PinnedBuild;
  token: string;
  challenge(nonce: string): Promise<HelperReport>;
}): Promise<string[]> {
  const { helperSha256 } = options.pinned;
  const measured = {
    imageId: null,
    pinLabel: null,
    helper: { sha256: helperSha256 },
    manifest: null,
    foreignMounts: [],
    changedCode: [],
  };
  return attestSandbox({ ...options, measured, hasImage: false });
}
