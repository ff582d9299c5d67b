/** Measures a sandbox and challenges its helper; the verdict itself is `protocol/attestation.ts`'s. */
import { createHmac, randomBytes } from "node:crypto";
import { type AttestationFacts, attest, type HelperReport } from "../protocol/attestation.ts";
import { asHoldfastError } from "../protocol/errors.ts";
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
  goodReport: HelperReport;
}): string[] {
  const { helperSha256, imageId, manifestSha256 } = options.pinned;
  return attest({
    expected: { imageId, helperSha256, manifestSha256, clis: [], proof: options.goodReport.proof },
    measured: options.measured,
    hasImage: options.hasImage,
    report: { ...options.goodReport, helperSha256, clis: [] },
  });
}
