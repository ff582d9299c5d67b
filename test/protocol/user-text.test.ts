import { expect, test } from "vitest";
import { LIMITS } from "../../protocol/limits.ts";
import { CliName } from "../../protocol/locator.ts";
import { textProblem } from "../../protocol/user-text.ts";
import { KNOWN_COMMANDS, NO_COMMANDS, UNKNOWN_COMMANDS } from "../support/user-texts.ts";

const COMMANDS = [...KNOWN_COMMANDS, ...UNKNOWN_COMMANDS];

test("what Claude Code would take for a command is refused, and everything else passes", () => {
  for (const text of COMMANDS)
    expect(textProblem("claude", text), JSON.stringify(text)).toMatchObject({ code: "MESSAGE_IS_COMMAND" });
  for (const text of NO_COMMANDS) expect(textProblem("claude", text), JSON.stringify(text)).toBeNull();
});

test("the other CLIs take every one of these texts", () => {
  for (const cli of CliName.options.filter((name) => name !== "claude")) {
    for (const text of [...COMMANDS, ...NO_COMMANDS])
      expect(textProblem(cli, text), `${cli} ${JSON.stringify(text)}`).toBeNull();
  }
});

test("an empty text, one beyond the limit, and half a surrogate pair are refused for every CLI", () => {
  const limit = LIMITS.userTextBytes;
  const refused: Array<[string, string]> = [
    ["", "MESSAGE_EMPTY"],
    ["x".repeat(limit + 1), "MESSAGE_TOO_LARGE"],
    // Within the limit as characters, beyond it as bytes.
    ["ö".repeat(limit / 2 + 1), "MESSAGE_TOO_LARGE"],
    ["€".repeat(Math.ceil(limit / 3) + 1), "MESSAGE_TOO_LARGE"],
    ["🦑".repeat(limit / 4 + 1), "MESSAGE_TOO_LARGE"],
    ["half \ud83e", "REQUEST_INVALID"],
    ["\udd91", "REQUEST_INVALID"],
  ];
  for (const cli of CliName.options) {
    for (const [text, code] of refused) expect(textProblem(cli, text)).toMatchObject({ code });
  }
});

test("a text of exactly the limit passes, whatever its characters take", () => {
  const limit = LIMITS.userTextBytes;
  const filled = (unit: string) => {
    const times = Math.floor(limit / Buffer.byteLength(unit));
    return unit.repeat(times) + "x".repeat(limit - times * Buffer.byteLength(unit));
  };
  for (const unit of ["x", "ö", "€", "🦑"]) {
    expect(Buffer.byteLength(filled(unit))).toBe(limit);
    expect(textProblem("claude", filled(unit)), unit).toBeNull();
    expect(textProblem("claude", `${filled(unit)}x`), unit).toMatchObject({ code: "MESSAGE_TOO_LARGE" });
  }
});

test("blanks alone are a text", () => {
  for (const text of [" ", "\n", " \n\t"]) expect(textProblem("claude", text)).toBeNull();
});

test("the refusal never carries the text", () => {
  const problem = textProblem("claude", "/secret-word of mine");
  expect(JSON.stringify([problem?.message, problem?.details])).not.toContain("secret");
});
