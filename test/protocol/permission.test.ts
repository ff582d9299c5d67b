import { expect, test } from "vitest";
import { LIMITS } from "../../protocol/limits.ts";
import { PermissionReply, PermissionRequest } from "../../protocol/permission.ts";
import { dispensableFields, NO_NATIVE_IDS, wrongBounds } from "../support/bounds.ts";
import { PERMISSION } from "../support/samples.ts";

test("a reply holds once or rejects: there is no word for always", () => {
  for (const reply of ["once", "reject"]) expect(PermissionReply.safeParse(reply).success).toBe(true);
  for (const reply of ["always", "allow", "", null]) {
    expect(PermissionReply.safeParse(reply).success, String(reply)).toBe(false);
  }
});

test("a request is accepted as it is, and refused beyond each of its bounds", () => {
  const bounds = [
    { at: "request", good: ["x".repeat(256)], bad: NO_NATIVE_IDS },
    { at: "session", good: ["x".repeat(256)], bad: NO_NATIVE_IDS },
    { at: "permission", good: ["", "x".repeat(128)], bad: ["x".repeat(129), null] },
    {
      at: "patterns",
      good: [[], Array(64).fill("*"), ["x".repeat(LIMITS.reasonChars)]],
      bad: [Array(65).fill("*"), ["x".repeat(LIMITS.reasonChars + 1)], [1], "*", null],
    },
  ];
  expect(wrongBounds(PermissionRequest, PERMISSION, bounds)).toEqual([]);
  expect(dispensableFields(PermissionRequest, PERMISSION)).toEqual([]);
});
