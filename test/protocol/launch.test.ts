import { expect, test } from "vitest";
import { Launch, ModelChoice } from "../../protocol/launch.ts";
import { dispensableFields, wrongBounds } from "../support/bounds.ts";
import { LAUNCH } from "../support/samples.ts";

const NO_TOKENS = [0, -1, 1.5, Number.POSITIVE_INFINITY, "1", null];

test("a launch is accepted as it is, and refused beyond each of its bounds", () => {
  const bounds = [
    { at: "cli", good: ["opencode", "kilo", "claude", "codex", "pi"], bad: ["OpenCode", "aider", "", null] },
    { at: "model.name", good: ["m", "x".repeat(200)], bad: ["", "x".repeat(201), null] },
    { at: "model.protocol", good: ["responses", "messages"], bad: ["anthropic", "", null] },
    { at: "model.contextTokens", good: [1], bad: NO_TOKENS },
    { at: "model.outputTokens", good: [1], bad: NO_TOKENS },
    { at: "permissions", bad: [null, {}, "allow"] },
    { at: "permissions.default", good: ["allow", "deny", "ask"], bad: ["always", null] },
    { at: "background", good: [true, false], bad: [null, 0] },
    { at: "digest", bad: ["", "A".repeat(64), null] },
  ];
  expect(wrongBounds(Launch, LAUNCH, bounds)).toEqual([]);
  expect(dispensableFields(Launch, LAUNCH)).toEqual([]);
  expect(dispensableFields(ModelChoice, LAUNCH.model)).toEqual([]);
});
