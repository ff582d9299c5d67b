import { expect, test } from "vitest";
import { createCommands } from "../../../../bridge/drivers/claude/commands.ts";

test("law 1: a text that begins with a command's name is that command, and every other text is none", () => {
  const commands = createCommands();
  commands.addNamed([{ name: "a.b" }, { name: 7 }, "x", null]);
  commands.add(["plugin:é"]);
  expect(commands.in("/a.b")).toBe("/a.b");
  expect(commands.in("/a.b and more")).toBe("/a.b");
  expect(commands.in("/plugin:é\u00a0x")).toBe("/plugin:é");
  for (const text of ["/a", "/a.b.c", " /a.b", "a.b", "/", "/ a.b", "", "/etc/hosts looks wrong"])
    expect(commands.in(text), text).toBeNull();
});

test("law 13: a list that is none, or has no end, does no harm", () => {
  const commands = createCommands();
  for (const list of [undefined, null, 7, {}]) commands.addNamed(list);
  commands.add(Array.from({ length: 20_000 }, (_, at) => `c${at}`));
  expect(commands.in("/c9999")).toBe("/c9999");
  expect(commands.in("/c19999")).toBeNull();
});
