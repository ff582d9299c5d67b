/**
 * The helper pin: which bridge a host accepts, and what that bridge promises.
 *
 * Compared at attestation (`attestation.ts`). A change of the wire or of a promised feature changes the
 * number; nothing here negotiates versions.
 */

/** Exactly this text, once, in the image label, in the image manifest and in what the running helper reports. */
export const HELPER_PIN = "http-agent-live-bridge=4";

/** What version 4 promises. 3 added the question replies, 4 the rest. A helper must report all of them, once. */
export const HELPER_FEATURES = [
  "question-replies",
  "live-subscription-gate",
  "abort-on-stream-loss",
  "child-permission-replies",
  "permission-reply-retry",
] as const;

const PIN_NAME = "http-agent-live-bridge";

/** What a text says about the pin: one version, none, or something that must not be trusted. */
export type PinReading =
  | { kind: "one"; version: string }
  | { kind: "missing" }
  | { kind: "repeated"; versions: readonly string[] };

/** Reads a label or a report. The pin named twice is `repeated`, also when both say the same. */
export function readPin(text: string | null): PinReading {
  const versions = [...(text ?? "").matchAll(new RegExp(`${PIN_NAME}=([^\\s,;]*)`, "g"))].map(
    (hit) => hit[1] ?? "",
  );
  const [version] = versions;
  if (version === undefined) return { kind: "missing" };
  if (versions.length > 1) return { kind: "repeated", versions };
  return { kind: "one", version };
}

/** The version that {@link HELPER_PIN} names. */
export const PINNED_VERSION: string = HELPER_PIN.slice(PIN_NAME.length + 1);
