import { expect, test } from "vitest";
import { HELPER_FEATURES, HELPER_PIN, PINNED_VERSION, readPin } from "../../protocol/pin.ts";

test("the pin is exactly the fourth version of the live bridge", () => {
  expect(HELPER_PIN).toBe("http-agent-live-bridge=4");
  expect(PINNED_VERSION).toBe("4");
  expect(readPin(HELPER_PIN)).toEqual({ kind: "one", version: "4" });
});

test("version 4 promises the five features of its history, each once", () => {
  expect([...HELPER_FEATURES].sort()).toEqual([
    "abort-on-stream-loss",
    "child-permission-replies",
    "live-subscription-gate",
    "permission-reply-retry",
    "question-replies",
  ]);
});

test("a text that does not name the pin has none", () => {
  for (const text of [null, "", "4", "http-agent-live-bridge", "http-agent-live-bridge:4", "live-bridge=4"]) {
    expect(readPin(text), String(text)).toEqual({ kind: "missing" });
  }
});

test("a pin named twice is repeated, whether both agree or not", () => {
  expect(readPin(`${HELPER_PIN} ${HELPER_PIN}`)).toEqual({ kind: "repeated", versions: ["4", "4"] });
  expect(readPin(`${HELPER_PIN},http-agent-live-bridge=3`)).toEqual({
    kind: "repeated",
    versions: ["4", "3"],
  });
  expect(readPin(`${HELPER_PIN}\n${HELPER_PIN}`).kind).toBe("repeated");
});

test("another version is read as what it says, an empty one too", () => {
  for (const version of ["3", "5", "40", "04", "4.1", "4-beta", ""]) {
    expect(readPin(`http-agent-live-bridge=${version}`)).toEqual({ kind: "one", version });
  }
});
