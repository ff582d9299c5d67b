import { expect, test } from "vitest";
import { stderrLog } from "../../bridge/log.ts";

test("each message is one line of JSON with its time, level, name and fields", () => {
  const lines: string[] = [];
  const log = stderrLog((line) => lines.push(line));
  log.info("link taken over", { fence: 3, cause: null });
  log.warn("slot not empty");
  expect(lines.every((line) => line.endsWith("\n") && line.indexOf("\n") === line.length - 1)).toBe(true);
  const [first, second] = lines.map((line) => JSON.parse(line));
  expect(first).toMatchObject({ level: "info", what: "link taken over", fence: 3, cause: null });
  expect(second).toMatchObject({ level: "warn", what: "slot not empty" });
  expect(Number.isNaN(Date.parse(first.at))).toBe(false);
});

test("a line break in a field can't begin a second line", () => {
  const lines: string[] = [];
  stderrLog((line) => lines.push(line)).warn("x", { stderr: 'a\nb\r\n{"level":"info"}' });
  expect(lines.join("").trimEnd().split("\n")).toHaveLength(1);
});
