import { expect, test } from "vitest";
import { Evidence } from "../../protocol/evidence.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { dispensableFields, NO_COUNTS, wrongBounds } from "../support/bounds.ts";
import { EVIDENCE } from "../support/samples.ts";

test("evidence is accepted as it is, and refused beyond each of its bounds", () => {
  const noNumbers = NO_COUNTS.filter((value) => value !== null);
  const bounds = [
    { at: "what", good: ["", "x".repeat(120)], bad: ["x".repeat(121), null] },
    {
      at: "source",
      good: ["stream", "http", "process", "history", "bridge", "host"],
      bad: ["model", "", null],
    },
    { at: "processGeneration", good: [null, 0], bad: noNumbers },
    { at: "subscription", good: [null, 0], bad: noNumbers },
    { at: "sequence", good: [null, 0], bad: noNumbers },
    { at: "at", good: [0, 1.5], bad: [-1, null, "now"] },
    {
      at: "detail",
      good: ["", "x".repeat(LIMITS.reasonChars)],
      bad: ["x".repeat(LIMITS.reasonChars + 1), null],
    },
  ];
  expect(wrongBounds(Evidence, EVIDENCE, bounds)).toEqual([]);
  expect(dispensableFields(Evidence, EVIDENCE)).toEqual([]);
});
