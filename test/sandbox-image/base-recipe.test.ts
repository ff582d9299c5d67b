import { expect, test } from "vitest";
import { BASE_PACKAGES, distributionOf, recipeDigest } from "../../sandbox-image/base-recipe.ts";
import { digestOfValue } from "../../sandbox-image/digest.ts";

const inputs = { distribution: "debian 12", certificatesSha256: "a".repeat(64) };

test("equal recipes have one digest", () => {
  expect(recipeDigest({ ...inputs })).toBe(recipeDigest(inputs));
  expect(recipeDigest(inputs)).toMatch(/^[0-9a-f]{64}$/);
});

test("another distribution or other certificates are another base", () => {
  const digests = [
    recipeDigest(inputs),
    recipeDigest({ ...inputs, distribution: "debian 13" }),
    recipeDigest({ ...inputs, certificatesSha256: "b".repeat(64) }),
  ];
  expect(new Set(digests).size).toBe(3);
});

test("the order of keys doesn't change a value's digest, the order of a list does", () => {
  expect(digestOfValue({ a: 1, b: { c: 2, d: 3 } })).toBe(digestOfValue({ b: { d: 3, c: 2 }, a: 1 }));
  expect(digestOfValue(["a", "b"])).not.toBe(digestOfValue(["b", "a"]));
});

test("the base holds what an agent's shell commands count on", () => {
  for (const name of ["bash", "coreutils", "git", "ripgrep", "tini", "libstdc++6"]) {
    expect(BASE_PACKAGES).toContain(name);
  }
});

test.each([
  ['ID=debian\nVERSION_ID="12"\n', "debian 12"],
  ['NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n', "ubuntu 24.04"],
  ["ID=debian\n", "debian rolling"],
  ['ID="fedora"\nVERSION_ID=41\n', undefined],
  ["", undefined],
])("the distribution is read from os-release (%#)", (text, expected) => {
  expect(distributionOf(text)).toBe(expected);
});
