import { expect, test } from "vitest";
import { type Command, readWords, text } from "../../../controller/cli/command.ts";
import { HoldfastError } from "../../../protocol/errors.ts";

const command: Command = {
  name: "thing do",
  summary: "Does it.",
  usage: "ID [--flag]\n\nmore",
  options: { flag: { type: "boolean" }, name: { type: "string" } },
  words: { min: 1, max: 2 },
  run: () => Promise.resolve(0),
};

function refusal(argv: string[], of: Command = command): string {
  try {
    readWords(of, argv);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "USAGE") return error.message;
    throw error;
  }
  throw new Error("it was not refused");
}

test("words and options are told apart, common options included", () => {
  const { words, values } = readWords(command, ["one", "--name", "x", "--json", "two", "--store=/s"]);
  expect(words).toEqual(["one", "two"]);
  expect(values).toMatchObject({ name: "x", json: true, store: "/s" });
  expect(text(values, "name")).toBe("x");
  expect(text(values, "flag")).toBeUndefined();
  expect(text(values, "json")).toBeUndefined();
});

test("too few or too many words name the command and its usage, in one line", () => {
  expect(refusal([])).toBe("thing do: it takes 1 to 2 words; usage: thing do ID [--flag]");
  expect(refusal(["a", "b", "c"])).toContain("it takes 1 to 2 words");
  expect(refusal([], { ...command, words: { min: 1, max: 1 } })).toContain("it takes one word;");
  expect(refusal([], { ...command, words: { min: 2, max: 2 } })).toContain("it takes 2 words;");
  expect(refusal(["a"], { ...command, words: { min: 0, max: 0 } })).toContain("it takes no further words");
});

test("an unknown option, a missing value and a value for a flag are refused", () => {
  expect(refusal(["a", "--frob"])).toBe("thing do: Unknown option '--frob'");
  expect(refusal(["a", "--name"])).toContain("--name");
  expect(refusal(["a", "--flag=1"])).toContain("--flag");
});

test("help is understood whatever the words are; what is behind a double dash is no option", () => {
  expect(readWords(command, ["--help"]).values.help).toBe(true);
  expect(readWords(command, ["a", "b", "c", "-h"]).values.help).toBe(true);
  expect(readWords(command, ["--", "--name"]).words).toEqual(["--name"]);
});
