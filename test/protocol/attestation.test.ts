import { expect, test } from "vitest";
import { type AttestationFacts, attest, HelperReport } from "../../protocol/attestation.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../../protocol/pin.ts";
import { changed, without } from "../support/changed.ts";
import { DIGEST_A, DIGEST_B, REPORT } from "../support/samples.ts";

const MANIFEST = "c".repeat(64);

/** All that the host verifies, as it should be. */
const GOOD: AttestationFacts = {
  expected: {
    imageId: "sha256:1234",
    helperSha256: DIGEST_A,
    manifestSha256: MANIFEST,
    clis: [
      { cli: "opencode", version: "1.14.50" },
      { cli: "pi", version: "0.75.5" },
    ],
    proof: DIGEST_B,
  },
  measured: {
    imageId: "sha256:1234",
    pinLabel: HELPER_PIN,
    helper: { sha256: DIGEST_A },
    manifest: { sha256: MANIFEST },
    foreignMounts: [],
    changedCode: [],
  },
  hasImage: true,
  report: {
    ...REPORT,
    clis: [
      { cli: "opencode", version: "1.14.50" },
      { cli: "pi", version: "0.75.5" },
    ],
  },
};

/** The reasons when one place of the good facts is different. */
function reasonsWith(path: string, value: unknown): string[] {
  return attest(changed(GOOD, path, value) as AttestationFacts);
}

test("a helper that is exactly the pinned one gives no reason for doubt", () => {
  expect(attest(GOOD)).toEqual([]);
});

const PINS: Array<[string, string, RegExp]> = [
  ["version 3", "http-agent-live-bridge=3", /says http-agent-live-bridge=3, this host needs/],
  ["version 5", "http-agent-live-bridge=5", /says http-agent-live-bridge=5, this host needs/],
  ["no pin", "something-else=4", /names no helper pin/],
  ["an empty text", "", /names no helper pin/],
  ["the pin twice", `${HELPER_PIN} ${HELPER_PIN}`, /names the helper pin 2 times \(4, 4\)/],
  ["two pins", `${HELPER_PIN} http-agent-live-bridge=3`, /names the helper pin 2 times \(4, 3\)/],
  ["the pin with words around it", `it is ${HELPER_PIN} indeed`, /this host needs/],
  ["the pin with a prefix", `x-${HELPER_PIN}`, /this host needs/],
  ["the pin with a space after it", `${HELPER_PIN} `, /this host needs/],
  ["the pin with a line end", `${HELPER_PIN}\n`, /this host needs/],
  ["the pin with digits after it", `${HELPER_PIN}0`, /this host needs/],
  ["the pin in capitals", HELPER_PIN.toUpperCase(), /names no helper pin/],
];

for (const [name, text, reason] of PINS) {
  test(`${name} in the image label is not ready`, () => {
    expect(reasonsWith("measured.pinLabel", text)).toEqual([
      expect.stringMatching(new RegExp(`^the image label [^]*${reason.source}`)),
    ]);
  });
  test(`${name} in the running helper's report is not ready`, () => {
    expect(reasonsWith("report.pin", text)).toEqual([
      expect.stringMatching(new RegExp(`^the running helper [^]*${reason.source}`)),
    ]);
  });
}

test("an image without a label is not ready", () => {
  expect(reasonsWith("measured.pinLabel", null)).toEqual(["the image label names no helper pin"]);
});

test("a label and a report that contradict each other are not ready, whichever is right", () => {
  expect(reasonsWith("measured.pinLabel", "http-agent-live-bridge=3")).toHaveLength(1);
  expect(reasonsWith("report.pin", "http-agent-live-bridge=3")).toHaveLength(1);
});

test("another image is not ready", () => {
  expect(reasonsWith("measured.imageId", "sha256:5678")).toHaveLength(1);
  expect(reasonsWith("measured.imageId", null)).toHaveLength(1);
});

test("an image that nobody could name is not ready, although nothing equals nothing", () => {
  const facts = changed(GOOD, "expected.imageId", null);
  expect(attest(changed(facts, "measured.imageId", null) as AttestationFacts)).toHaveLength(1);
});

test("a manifest that is missing, unmeasured or another is not ready", () => {
  expect(reasonsWith("measured.manifest", null)).toEqual(["the image has no manifest"]);
  expect(reasonsWith("measured.manifest", { problem: "a link" })).toEqual([
    "the manifest can't be measured: a link",
  ]);
  expect(reasonsWith("measured.manifest", { sha256: DIGEST_A })).toHaveLength(1);
  expect(reasonsWith("expected.manifestSha256", null)).toHaveLength(1);
});

test("other bytes under the right pin are not ready", () => {
  expect(reasonsWith("measured.helper", { sha256: DIGEST_B })).toEqual([
    "the helper's bytes differ from the pinned ones",
  ]);
});

test("bytes that could not be measured are not ready", () => {
  expect(reasonsWith("measured.helper", { problem: "not a plain file" })).toEqual([
    "the helper's bytes can't be measured: not a plain file",
  ]);
});

test("a helper that reports other bytes than the host measured is not ready", () => {
  expect(reasonsWith("report.helperSha256", DIGEST_B)).toHaveLength(1);
});

test("a wrong answer to the challenge is not ready", () => {
  expect(reasonsWith("report.proof", DIGEST_A)).toEqual(["the answer to the challenge is wrong"]);
});

test("every change over the image's code is a reason of its own", () => {
  const reasons = reasonsWith("measured.changedCode", [
    "/opt/holdfast/node (changed)",
    "/etc/ld.so.preload (added)",
  ]);
  expect(reasons).toEqual([
    "a file of the image was changed: /opt/holdfast/node (changed)",
    "a file of the image was changed: /etc/ld.so.preload (added)",
  ]);
});

test("every foreign mount is a reason of its own", () => {
  const reasons = reasonsWith("measured.foreignMounts", ["/var/run/docker.sock", "/etc"]);
  expect(reasons).toHaveLength(2);
  expect(reasons[0]).toContain("/var/run/docker.sock");
  expect(reasons[1]).toContain("/etc");
});

for (const feature of HELPER_FEATURES) {
  test(`a helper without ${feature}, or with it twice, is not ready`, () => {
    const others = HELPER_FEATURES.filter((entry) => entry !== feature);
    expect(reasonsWith("report.features", others)).toEqual([
      `the helper states the feature ${feature} 0 times`,
    ]);
    expect(reasonsWith("report.features", [...HELPER_FEATURES, feature])).toEqual([
      `the helper states the feature ${feature} 2 times`,
    ]);
  });
}

test("an unknown feature is not ready", () => {
  expect(reasonsWith("report.features", [...HELPER_FEATURES, "telepathy"])).toEqual([
    "the helper states an unknown feature: telepathy",
  ]);
});

test("a CLI of another version, one that is missing and one named twice are not ready", () => {
  const opencode = { cli: "opencode", version: "1.14.50" };
  const pi = { cli: "pi", version: "0.75.5" };
  expect(reasonsWith("report.clis", [opencode, { ...pi, version: "0.80.3" }])).toEqual([
    "pi is 0.80.3, pinned is 0.75.5",
  ]);
  expect(reasonsWith("report.clis", [opencode])).toEqual(["the helper names pi 0 times"]);
  expect(reasonsWith("report.clis", [opencode, pi, pi])).toEqual(["the helper names pi 2 times"]);
});

test("all reasons are given at once, not only the first", () => {
  const reasons = attest({
    expected: GOOD.expected,
    measured: {
      imageId: "sha256:5678",
      pinLabel: "http-agent-live-bridge=3",
      helper: { sha256: DIGEST_B },
      manifest: null,
      foreignMounts: ["/etc"],
      changedCode: [],
    },
    hasImage: true,
    report: {
      pin: "",
      features: ["telepathy"],
      clis: [],
      proof: DIGEST_A,
      helperSha256: DIGEST_B,
      earlierEnd: "none",
      epoch: 1,
    },
  });
  // label, image, manifest, mount, bytes, report's pin, report's bytes, proof, 5 features, 1 unknown, 2 CLIs
  expect(reasons).toHaveLength(16);
  expect(new Set(reasons).size).toBe(16);
});

test("a sandbox without an image is judged by its helper alone, and just as strictly", () => {
  const facts: AttestationFacts = {
    ...GOOD,
    expected: { ...GOOD.expected, imageId: null, manifestSha256: null },
    measured: { ...GOOD.measured, imageId: null, pinLabel: null, manifest: null },
    hasImage: false,
  };
  expect(attest(facts)).toEqual([]);
  expect(attest(changed(facts, "report.pin", "http-agent-live-bridge=3") as AttestationFacts)).toHaveLength(
    1,
  );
  expect(attest(changed(facts, "measured.helper.sha256", DIGEST_B) as AttestationFacts)).toHaveLength(1);
  expect(attest(changed(facts, "report.proof", DIGEST_A) as AttestationFacts)).toHaveLength(1);
});

test("a report is accepted as it is, and refused beyond each of its bounds", () => {
  expect(HelperReport.parse(REPORT)).toEqual(REPORT);
  for (const [path, bad] of [
    ["pin", "x".repeat(513)],
    ["features", Array(65).fill("x")],
    ["features.0", "x".repeat(65)],
    ["clis", Array(17).fill(REPORT.clis[0])],
    ["clis.0.cli", "vi"],
    ["clis.0.version", "x".repeat(65)],
    ["proof", "a".repeat(63)],
    ["helperSha256", "A".repeat(64)],
    ["epoch", 1.5],
  ] as const) {
    expect(HelperReport.safeParse(changed(REPORT, path, bad)).success, path).toBe(false);
  }
  for (const field of Object.keys(REPORT)) {
    expect(HelperReport.safeParse(without(REPORT, field)).success, field).toBe(false);
  }
});
