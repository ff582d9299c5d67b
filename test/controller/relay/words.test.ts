import { expect, test } from "vitest";
import { modelName, word } from "../../../controller/relay/words.ts";

test("a stop reason is one plain word", () => {
  for (const good of ["stop", "end_turn", "max_output_tokens", "model_context_window_exceeded"])
    expect(word(good)).toBe(good);
  for (const bad of ["two words", "", "x".repeat(129), null, 3, { a: 1 }]) expect(word(bad)).toBeNull();
});

test("a model's name is visible characters, at most 200", () => {
  for (const good of ["gpt-5.4", "claude-opus-5[1m]", "vendor/model:free", "x".repeat(200)])
    expect(modelName(good)).toBe(good);
  for (const bad of ["", "two words", "x".repeat(201), "a\u{1b}[31m", "modèle", null, 3])
    expect(modelName(bad)).toBeNull();
});
