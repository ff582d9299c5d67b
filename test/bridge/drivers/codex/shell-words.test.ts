import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { commandPattern, shellWords } from "../../../../bridge/drivers/codex/shell-words.ts";

test.each([
  ["/bin/bash -lc ls", "ls"],
  ["/bin/bash -c ls", "ls"],
  ["/usr/bin/sh -lc 'git push'", "git push"],
  [`/bin/bash -lc "echo \\"it's\\" \\$HOME \\\\x"`, `echo "it's" $HOME \\x`],
  [`/bin/zsh -lc 'a'"'"'b'`, "a'b"],
  ["/bin/bash -lc 'two\nlines'", "two\nlines"],
  ["/bin/bash -lc ''", ""],
])("the call of a shell is judged by its script: %s", (command, pattern) => {
  expect(commandPattern(command)).toBe(pattern);
});

test.each([
  ["another program", "/workspace/bash -lc ls"],
  ["a name without its place", "bash -lc ls"],
  ["words behind the script", "/bin/bash -lc ls more"],
  ["another option", "/bin/bash -i ls"],
  ["no script", "/bin/bash -lc"],
  ["quotes that do not close", "/bin/bash -lc 'ls"],
  ["double ones", '/bin/bash -lc "ls'],
  ["a last backslash", "/bin/bash -lc ls\\"],
])("anything else is judged as it stands: %s", (_, command) => {
  expect(commandPattern(command)).toBe(command);
});

const TEXTS = [
  "plain",
  "",
  "a b",
  "it's",
  'say "x"',
  "back\\slash",
  "$x `y` \\$z",
  "tab\tand\nline",
  "'",
  "\"'\\",
];

test("words are split as a POSIX shell splits them, in each style of quoting", () => {
  const styles = [
    (text: string) => `'${text.replaceAll("'", `'\\''`)}'`,
    (text: string) => `"${text.replaceAll(/[$`"\\]/g, "\\$&")}"`,
    (text: string) => `'${text.replaceAll("'", `'"'"'`)}'`,
  ];
  for (const quote of styles) {
    const line = TEXTS.map(quote).join("  ");
    expect(shellWords(line)).toEqual(TEXTS);
    const printed = execFileSync("/bin/sh", ["-c", `printf '%s\\0' ${line}`], { encoding: "utf8" });
    expect(printed.split("\0").slice(0, -1)).toEqual(TEXTS);
  }
});
