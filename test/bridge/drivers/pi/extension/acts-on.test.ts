import { expect, test } from "vitest";
import { actsOn } from "../../../../../bridge/drivers/pi/extension/acts-on.ts";

const CWD = "/place/space";
const HOME = "/home/agent";

test.each([
  ["a.txt", "/place/space/a.txt"],
  ["../../etc/passwd", "/etc/passwd"],
  ["/etc/../etc/shadow", "/etc/shadow"],
  ["~", "/home/agent"],
  ["~/.ssh/id", "/home/agent/.ssh/id"],
  ["@src/a.ts", "/place/space/src/a.ts"],
  ["@~/x", "/home/agent/x"],
  ["file:///etc/hosts", "/etc/hosts"],
  ["a\u00a0b", "/place/space/a b"],
  ["~other/x", "/place/space/~other/x"],
])("the path %s is judged as %s, as pi's own tools read it", (path, judged) => {
  expect(actsOn({ path }, CWD, HOME)).toEqual([judged]);
});

test("a command is judged whole", () => {
  const command = `echo ${"x".repeat(100_000)}; rm -rf /`;
  expect(actsOn({ command, path: "a" }, CWD, HOME)).toEqual([command]);
});

test("a tool that names neither has no pattern of its own", () => {
  expect(actsOn({}, CWD, HOME)).toEqual([]);
  expect(actsOn({ path: 7, command: null }, CWD, HOME)).toEqual([]);
});

test("a path that can't be read throws: pi blocks the call then", () => {
  expect(() => actsOn({ path: "file://host/etc/hosts" }, CWD, HOME)).toThrow();
});
