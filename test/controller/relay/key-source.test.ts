import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type KeySource, readKey } from "../../../controller/relay/key-source.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const SECRET = "sk-secret-1";

function keyFile(content: string | Buffer, mode = 0o600): string {
  const path = join(temporaryDirectory(), "key");
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

test("a key is the text itself, an owner's file's or a variable's; none is none", () => {
  expect(readKey(null, {})).toBeNull();
  expect(readKey(SECRET, {})).toBe(SECRET);
  expect(readKey({ file: keyFile(`${SECRET}\n`) }, {})).toBe(SECRET);
  expect(readKey({ variable: "K" }, { K: ` ${SECRET} ` })).toBe(SECRET);
});

test("what holds no single key is refused, and what it holds is not told", () => {
  const cases: Array<[KeySource, RegExp]> = [
    [`${SECRET}\nx`, /no single key/],
    [{ file: keyFile(`${SECRET} ${SECRET}`) }, /no single key/],
    [{ file: keyFile(Buffer.from([0, 1, 2])) }, /no single key/],
    [{ file: keyFile("\n") }, /is empty/],
    [{ file: keyFile(SECRET, 0o644) }, /chmod 600/],
    [{ file: "/nowhere/key" }, /does not exist/],
    [{ file: temporaryDirectory() }, /can be read by others|can't be read/],
    [{ variable: "K" }, /the variable K.* is not set/],
  ];
  for (const [source, why] of cases) {
    const read = () => readKey(source, {});
    expect(read).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
    expect(read).toThrow(why);
    expect(read).not.toThrow(SECRET);
  }
  expect(() => readKey({ variable: "K" }, { K: "two words" })).toThrow(/in the variable K/);
});
