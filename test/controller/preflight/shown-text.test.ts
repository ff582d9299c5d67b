import { expect, test } from "vitest";
import { showWithout } from "../../../controller/preflight/shown-text.ts";
import { canariesIn, canary } from "../../support/canaries.ts";

const KEY = "sk-Test.Key_0123456789/abc+XYZ=";

test.for([
  ["as it is", KEY],
  ["in other case", KEY.toUpperCase()],
  ["as a URL carries it", encodeURIComponent(KEY)],
  ["in hex", Buffer.from(KEY).toString("hex")],
  ["in Base64", Buffer.from(KEY).toString("base64")],
  ["in Base64 behind one byte", Buffer.from(`:${KEY}`).toString("base64")],
  ["in Base64 behind a name", Buffer.from(`ab${KEY}cd`).toString("base64url")],
  ["with a control character within", `${KEY.slice(0, 9)}\u0000${KEY.slice(9)}`],
  ["with a mark of direction within", `${KEY.slice(0, 9)}\u202e${KEY.slice(9)}`],
  ["with a character of no width within", `${KEY.slice(0, 9)}\u200b${KEY.slice(9)}`],
])("a key %s is not shown", ([, form]) => {
  const shown = showWithout(KEY)(`before ${form} after ${form}`, 1000);
  expect(canariesIn(shown, [canary("key", KEY)])).toEqual([]);
  expect(shown.toLowerCase()).not.toContain(KEY.toLowerCase());
  expect(shown).toMatch(/^before \S*\[key\]/);
});

test("a cut never leaves a part of the key: it is taken out first", () => {
  const shown = showWithout(KEY)(`${"x".repeat(20)}${KEY}`, 24);
  expect(shown).toBe(`${"x".repeat(20)}[ke…`);
});

test("control and format characters go, line feeds and tabs stay, and without a key nothing else changes", () => {
  const show = showWithout(null);
  expect(show("a\u001b[2Jb\u0007\r\nc\td\u202ee\u009b", 100)).toBe("a[2Jb\nc\tde");
  expect(show("naïve 字 🙂", 100)).toBe("naïve 字 🙂");
});

test("a key of signs that mean something in a pattern is a plain text", () => {
  expect(showWithout("a.b*c(d)[e]")("xx a.b*c(d)[e] aXbbc", 100)).toBe("xx [key] aXbbc");
});
