import { expect, test } from "vitest";
import { openAiUsage } from "../../../controller/relay/openai-usage.ts";
import { KNOWN } from "./calls.ts";

test.each([
  ["prompt", "completion"],
  ["input", "output"],
] as const)(
  "the parts of %s and %s are taken off their wholes, under the protocol's own names alone",
  (input, output) => {
    const stated = {
      [`${input}_tokens`]: 100,
      [`${output}_tokens`]: 20,
      [`${input}_tokens_details`]: { cached_tokens: 60, cache_write_tokens: 10 },
      [`${output}_tokens_details`]: { reasoning_tokens: 5 },
    };
    expect(openAiUsage(stated, { input, output })).toEqual(KNOWN);
    const others =
      input === "prompt"
        ? ({ input: "input", output: "output" } as const)
        : ({ input: "prompt", output: "completion" } as const);
    expect(openAiUsage(stated, others)).toMatchObject({
      state: "unknown",
      allInputTokens: null,
      allOutputTokens: null,
    });
  },
);
