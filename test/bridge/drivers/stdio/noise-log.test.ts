import { expect, test } from "vitest";
import { createNoiseLog } from "../../../../bridge/drivers/stdio/noise-log.ts";
import { keptLog } from "../../../support/kept-log.ts";

function noted(...noises: string[]) {
  const log = keptLog();
  const noise = createNoiseLog(log, "m-1");
  for (const text of noises) noise.note(text, false);
  noise.end();
  return log.lines;
}

test("P28: noise is logged with its length and its beginning", () => {
  expect(noted("npm warn deprecated")).toEqual([
    {
      level: "warn",
      what: "noise on the CLI's stdout",
      fields: { member: "m-1", chars: 19, begins: "npm warn deprecated" },
    },
  ]);
});

test("P28: so many lines and so many characters, and the rest is a number at the end", () => {
  const lines = noted(...Array.from({ length: 1000 }, () => "ab ".repeat(1_000_000)));
  expect(lines).toHaveLength(21);
  expect(lines[0]?.fields.begins).toHaveLength(200);
  expect(lines.at(-1)).toMatchObject({ what: "more noise on the CLI's stdout", fields: { lines: 980 } });
  expect(noted("a")).toHaveLength(1);
});

test("nothing that steers a terminal, turns a text around or ends a line reaches the log", () => {
  const everyControl = Array.from({ length: 0xa0 }, (_, code) => String.fromCharCode(code)).join("");
  const others = "\u2028\u2029\u202e\u2066\ufeff\u00ad\ud83e\ufffd\ue000";
  for (const text of [everyControl, others, `${"x ".repeat(99)}x🦑`]) {
    const [line] = noted(text);
    expect(line?.fields.begins).not.toMatch(/[\p{C}\p{Zl}\p{Zp}\ufffd]/u);
  }
});

test("law 14: what looks like a key is not shown", () => {
  const [line] = noted("token k_0123456789abcdefghi-jk Bearer eyJhbGciOiJIUzI1NiJ9.x at /usr/lib/x");
  expect(line?.fields.begins).toBe("token … Bearer ….x at /usr/lib/x");
});

test("of a damaged message nothing is shown", () => {
  const log = keptLog();
  createNoiseLog(log, "m-1").note('{"type":"text","text":"the user\'s own words', true);
  expect(log.lines).toEqual([
    { level: "warn", what: "a damaged line on the CLI's stdout", fields: { member: "m-1", chars: 43 } },
  ]);
});
