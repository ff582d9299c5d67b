import { expect, test } from "vitest";
import { CliName, ContainerIdentity, Locator, TailReference } from "../../protocol/locator.ts";
import { dispensableFields, NO_COUNTS, NO_IDS, NO_NATIVE_IDS, wrongBounds } from "../support/bounds.ts";
import { CONTAINER, LOCATOR } from "../support/samples.ts";

test("the CLIs are these five", () => {
  for (const cli of ["opencode", "kilo", "claude", "codex", "pi"])
    expect(CliName.safeParse(cli).success).toBe(true);
  for (const cli of ["Claude", "gemini", "", null]) expect(CliName.safeParse(cli).success).toBe(false);
});

test("a locator is accepted as it is, and refused beyond each of its bounds", () => {
  const bounds = [
    { at: "format", bad: [0, 2, "1", null] },
    { at: "cli", good: ["pi"], bad: ["gemini", null] },
    { at: "cliVersion", good: ["", "x".repeat(64)], bad: ["x".repeat(65), null] },
    { at: "nativeId", good: ["x".repeat(256)], bad: NO_NATIVE_IDS },
    {
      at: "directory",
      good: ["/", `/${"x".repeat(1023)}`],
      bad: ["", "workspace", "./a", `/${"x".repeat(1024)}`, null],
    },
    { at: "settledTurns", good: [0], bad: NO_COUNTS },
    { at: "tail", good: [null, { role: "user", id: "m" }], bad: [{}, { role: "tool", id: "m" }, undefined] },
    { at: "tail.id", bad: NO_NATIVE_IDS },
  ];
  expect(wrongBounds(Locator, LOCATOR, bounds)).toEqual([]);
  expect(dispensableFields(Locator, LOCATOR)).toEqual([]);
  expect(dispensableFields(TailReference, LOCATOR.tail ?? {})).toEqual([]);
});

test("a container is named by its ids, each within its bounds", () => {
  const bounds = [
    { at: "sandboxId", good: ["x".repeat(128)], bad: NO_IDS },
    { at: "generation", good: [0], bad: NO_COUNTS },
    { at: "containerId", good: ["x".repeat(128)], bad: ["", "x".repeat(129), null] },
    { at: "imageId", good: ["sha256:1"], bad: ["", "x".repeat(129), null] },
    { at: "helperSha256", bad: ["", "A".repeat(64), null] },
  ];
  expect(wrongBounds(ContainerIdentity, CONTAINER, bounds)).toEqual([]);
  expect(dispensableFields(ContainerIdentity, CONTAINER)).toEqual([]);
});

test("a locator survives being written as JSON and read again, byte for byte", () => {
  const text = JSON.stringify(LOCATOR);
  expect(JSON.stringify(Locator.parse(JSON.parse(text)))).toBe(text);
});
