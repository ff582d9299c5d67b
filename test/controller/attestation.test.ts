import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { attestAnswer, attestMeasured, attestSandbox } from "../../controller/attestation.ts";
import type { AttestationFacts, HelperReport } from "../../protocol/attestation.ts";
import { type ErrorCode, HoldfastError } from "../../protocol/errors.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../../protocol/pin.ts";
import { BUILD } from "../support/fake-sandbox.ts";
import { DIGEST_A, DIGEST_B, REPORT } from "../support/samples.ts";

type Measured = AttestationFacts["measured"];
const TOKEN = "0123456789abcdef";
const MEASURED: Measured = {
  imageId: BUILD.imageId,
  pinLabel: HELPER_PIN,
  helper: { sha256: DIGEST_A },
  manifest: { sha256: DIGEST_B },
  foreignMounts: [],
  changedCode: [],
};

const proofOf = (nonce: string, token = TOKEN, digest = DIGEST_A) =>
  createHmac("sha256", token).update(`${nonce}:${digest}`).digest("hex");

function attest(options: {
  measured?: Partial<Measured>;
  report?: Partial<HelperReport>;
  proof?: (nonce: string) => string;
  hasImage?: boolean;
}): Promise<string[]> {
  return attestSandbox({
    pinned: BUILD,
    measured: { ...MEASURED, ...options.measured },
    hasImage: options.hasImage ?? true,
    token: TOKEN,
    challenge: async (nonce) => ({ ...REPORT, proof: (options.proof ?? proofOf)(nonce), ...options.report }),
  });
}

/** The measuring alone, as it is judged before a start. */
function measuredReasons(measured: Partial<Measured>, hasImage = true): string[] {
  return attestMeasured({ pinned: BUILD, measured: { ...MEASURED, ...measured }, hasImage });
}

test("a helper that is exactly the pinned one is trusted", async () => {
  expect(await attest({})).toEqual([]);
  expect(measuredReasons({})).toEqual([]);
});

const MEASURED_REASONS: Array<[Partial<Measured>, string]> = [
  [{ imageId: "sha256:9999" }, "the container's image is not the one that this host built"],
  [{ imageId: null }, "the container's image is not the one that this host built"],
  [{ pinLabel: null }, "the image label names no helper pin"],
  [
    { pinLabel: "http-agent-live-bridge=3" },
    "the image label says http-agent-live-bridge=3, this host needs",
  ],
  [
    { pinLabel: "http-agent-live-bridge=5" },
    "the image label says http-agent-live-bridge=5, this host needs",
  ],
  [{ pinLabel: `${HELPER_PIN} ${HELPER_PIN}` }, "the image label names the helper pin 2 times (4, 4)"],
  [
    { pinLabel: `${HELPER_PIN} http-agent-live-bridge=3` },
    "the image label names the helper pin 2 times (4, 3)",
  ],
  [{ helper: { sha256: DIGEST_B } }, "the helper's bytes differ from the pinned ones"],
  [{ helper: { problem: "it is a link" } }, "the helper's bytes can't be measured: it is a link"],
  [{ manifest: { sha256: DIGEST_A } }, "the manifest's bytes differ from the built one"],
  [{ manifest: { problem: "it is missing" } }, "the manifest can't be measured: it is missing"],
  [{ manifest: null }, "the image has no manifest"],
  [{ changedCode: ["/usr/bin/git (changed)"] }, "a file of the image was changed: /usr/bin/git (changed)"],
  [{ foreignMounts: ["/etc"] }, "a mount is not on the allow list: /etc"],
];

test("each measured fault is a reason of its own, before the start and after it", async () => {
  for (const [measured, reason] of MEASURED_REASONS) {
    const before = measuredReasons(measured);
    expect(before).toHaveLength(1);
    expect(before[0]).toContain(reason);
    expect(await attest({ measured })).toEqual(before);
  }
});

test("each fault of the running helper is a reason of its own", async () => {
  const [feature = "", ...rest] = HELPER_FEATURES;
  const faults: Array<[Partial<HelperReport>, string]> = [
    [{ pin: "" }, "the running helper names no helper pin"],
    [
      { pin: "http-agent-live-bridge=3" },
      "the running helper says http-agent-live-bridge=3, this host needs",
    ],
    [
      { pin: "http-agent-live-bridge=5" },
      "the running helper says http-agent-live-bridge=5, this host needs",
    ],
    [{ pin: `${HELPER_PIN},${HELPER_PIN}` }, "the running helper names the helper pin 2 times (4, 4)"],
    [{ pin: ` ${HELPER_PIN}` }, "the running helper says"],
    [{ helperSha256: DIGEST_B }, "the running helper reports other bytes than the pinned ones"],
    [{ features: rest }, `the helper states the feature ${feature} 0 times`],
    [{ features: [...HELPER_FEATURES, feature] }, `the helper states the feature ${feature} 2 times`],
    [{ features: [...HELPER_FEATURES, "more"] }, "the helper states an unknown feature: more"],
    [{ clis: [] }, "the helper names opencode 0 times"],
    [{ clis: [...REPORT.clis, ...REPORT.clis] }, "the helper names opencode 2 times"],
    [{ clis: [{ cli: "opencode", version: "1.0.0" }] }, "opencode is 1.0.0, pinned is 1.14.50"],
    [{ proof: DIGEST_B }, "the answer to the challenge is wrong"],
  ];
  for (const [report, reason] of faults) {
    const reasons = await attest({ report });
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toContain(reason);
  }
});

test("a proof made with another token, other bytes or another nonce is wrong", async () => {
  for (const proof of [
    (nonce: string) => proofOf(nonce, "another token 123"),
    (nonce: string) => proofOf(nonce, TOKEN, DIGEST_B),
    () => proofOf("0".repeat(64)),
  ]) {
    expect(await attest({ proof })).toEqual(["the answer to the challenge is wrong"]);
  }
});

test("an answer that is none of this version's is a reason; a link that breaks is an error", async () => {
  const asked = (code: ErrorCode) =>
    attestSandbox({
      pinned: BUILD,
      measured: MEASURED,
      hasImage: true,
      token: TOKEN,
      challenge: () => Promise.reject(new HoldfastError(code, "what came instead")),
    });
  for (const code of ["FRAME_INVALID", "METHOD_UNKNOWN", "REQUEST_INVALID"] as const)
    expect(await asked(code)).toEqual([
      "the helper's answer to the challenge can't be read: what came instead",
    ]);
  for (const code of ["LINK_CLOSED", "LINK_TIMEOUT", "FENCED"] as const)
    await expect(asked(code)).rejects.toMatchObject({ code });
});

test("the challenge is new each time", async () => {
  const nonces: string[] = [];
  const proof = (nonce: string) => {
    nonces.push(nonce);
    return proofOf(nonce);
  };
  await attest({ proof });
  await attest({ proof });
  expect(nonces[0]).toMatch(/^[0-9a-f]{64}$/);
  expect(nonces[1]).not.toBe(nonces[0]);
});

test("several faults are all told", async () => {
  const reasons = await attest({ measured: { foreignMounts: ["/a", "/b"] }, report: { pin: "", clis: [] } });
  expect(reasons).toHaveLength(4);
});

test("a kind without an image is not asked for image, label and manifest, and for all else it is", async () => {
  const measured = { imageId: null, pinLabel: null, manifest: null };
  expect(measuredReasons(measured, false)).toEqual([]);
  expect(measuredReasons({ ...measured, helper: { sha256: DIGEST_B } }, false)).toHaveLength(1);
  expect(await attest({ measured, hasImage: false, report: { pin: "" } })).toHaveLength(1);
});

test("a helper that does not answer the challenge is its own error, and no verdict", async () => {
  const gone = attestSandbox({
    pinned: BUILD,
    measured: MEASURED,
    hasImage: true,
    token: TOKEN,
    challenge: () => Promise.reject(new Error("gone")),
  });
  await expect(gone).rejects.toThrow("gone");
});

test("the running helper's answer alone is judged by everything in it, and by nothing that is measured", async () => {
  const answer = (report: Partial<HelperReport>, proof = proofOf) =>
    attestAnswer({
      pinned: BUILD,
      token: TOKEN,
      challenge: async (nonce) => ({ ...REPORT, proof: proof(nonce), ...report }),
    });
  expect(await answer({})).toEqual([]);
  expect(await answer({ pin: "http-agent-live-bridge=3" })).toHaveLength(1);
  expect(await answer({ helperSha256: DIGEST_B })).toEqual([
    "the running helper reports other bytes than the pinned ones",
  ]);
  expect(await answer({}, () => proofOf("another nonce"))).toEqual(["the answer to the challenge is wrong"]);
  expect(await answer({ features: [] })).not.toEqual([]);
});
