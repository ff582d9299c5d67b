import { expect, test } from "vitest";
import { lastWords } from "../../controller/last-words.ts";
import { HoldfastError } from "../../protocol/errors.ts";

const GONE = new HoldfastError("BRIDGE_GONE", "the bridge ended before it connected");
const line = (words: object) => `{"level":"info"}\n${JSON.stringify(words)}\n`;

test("a bridge that says what is wrong with its place is heard", () => {
  for (const code of ["SANDBOX_UNFIT", "DISK_FULL"])
    expect(lastWords(GONE, line({ code, error: "no room in /x" }))).toMatchObject({
      code,
      message: "no room in /x",
    });
});

test("everything else is a bridge that is gone, with its last line", () => {
  for (const words of [{ code: "CONTEXT_LOST", error: "x" }, { code: "DISK_FULL" }, { code: 7 }, [1]]) {
    expect(lastWords(GONE, line(words))).toMatchObject({
      code: "BRIDGE_GONE",
      message: `the bridge ended before it connected; its last words: ${JSON.stringify(words)}`,
    });
  }
  expect(lastWords(GONE, "a\nSegmentation fault").message).toMatch(/last words: Segmentation fault$/);
  expect(lastWords(GONE, `${"x".repeat(1e6)}\n`).message.length).toBeLessThan(5000);
});

test("a bridge that said nothing leaves the fault as it was", () => {
  for (const log of ["", "\n \n"]) expect(lastWords(GONE, log)).toBe(GONE);
});
