import { expect, test } from "vitest";
import { changedParts, changeReason, LAUNCH_PARTS, LaunchParts } from "../../protocol/launch-parts.ts";
import { DIGEST_B, LAUNCH_PARTS as PARTS } from "../support/samples.ts";

test("every part is a digest, and all are there", () => {
  expect(LaunchParts.parse(PARTS)).toEqual(PARTS);
  expect(Object.keys(PARTS)).toEqual(LAUNCH_PARTS);
  for (const part of LAUNCH_PARTS) {
    expect(LaunchParts.safeParse({ ...PARTS, [part]: "m1" }).success).toBe(false);
    expect(LaunchParts.safeParse({ ...PARTS, [part]: undefined }).success).toBe(false);
  }
});

test("each part that changed is named, and no other", () => {
  expect(changedParts(PARTS, PARTS)).toEqual([]);
  for (const part of LAUNCH_PARTS)
    expect(changedParts(PARTS, { ...PARTS, [part]: DIGEST_B })).toEqual([part]);
  const words = LAUNCH_PARTS.map((part) => changeReason(PARTS, { ...PARTS, [part]: DIGEST_B }));
  expect(words).toEqual([
    "the image changed",
    "the CLI's version changed",
    "the model changed",
    "the configuration changed",
    "the permission policy changed",
    "the names in the environment changed",
  ]);
});

test("several parts make one reason, and none the general one", () => {
  expect(changeReason(PARTS, { ...PARTS, model: DIGEST_B, policy: DIGEST_B })).toBe(
    "the model and the permission policy changed",
  );
  expect(changeReason(PARTS, { ...PARTS, image: DIGEST_B, model: DIGEST_B, environment: DIGEST_B })).toBe(
    "the image, the model and the names in the environment changed",
  );
  expect(changeReason(PARTS, PARTS)).toBe("the launch configuration changed");
});
