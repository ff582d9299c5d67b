import fc from "fast-check";
import { expect, test } from "vitest";
import { Count, Digest, Instant, NativeId, OurId } from "../../protocol/ids.ts";
import { NO_COUNTS, NO_IDS, NO_NATIVE_IDS } from "../support/bounds.ts";

const takes = (schema: { safeParse(value: unknown): { success: boolean } }, value: unknown) =>
  schema.safeParse(value).success;

test("our ids are short and safe in a path, a label and a log", () => {
  for (const id of ["a", "A1", "box-1", "t_2.3", "0", "x".repeat(128)])
    expect(takes(OurId, id), id).toBe(true);
  for (const id of NO_IDS) expect(takes(OurId, id), String(id)).toBe(false);
});

test("no id of ours, whatever it is, leaves the folder that it names", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 12 }), (id) => {
      if (takes(OurId, id)) expect(id).toMatch(/^(?!\.)[\w.-]+$/);
    }),
  );
});

test("a native id may be any visible text up to 256 units, in any script", () => {
  for (const id of ["ses_1", "a/b:c", "№-42", "会话", "x".repeat(256)])
    expect(takes(NativeId, id), id).toBe(true);
  for (const id of NO_NATIVE_IDS) expect(takes(NativeId, id), String(id)).toBe(false);
});

test("a native id holds no control character and no space, of either block", () => {
  for (let unit = 0; unit < 0xa0; unit += 1) {
    const isVisible = unit > 0x20 && unit < 0x7f;
    expect(takes(NativeId, `a${String.fromCharCode(unit)}`), unit.toString(16)).toBe(isVisible);
  }
});

test("a count is a whole number that is not negative and exact", () => {
  for (const count of [0, 1, Number.MAX_SAFE_INTEGER]) expect(takes(Count, count)).toBe(true);
  for (const count of NO_COUNTS) expect(takes(Count, count), String(count)).toBe(false);
});

test("an instant is a finite number that is not negative", () => {
  for (const at of [0, 1_700_000_000_000.5]) expect(takes(Instant, at)).toBe(true);
  for (const at of [-1, Number.NaN, Number.POSITIVE_INFINITY, "0", null, new Date(0)]) {
    expect(takes(Instant, at), String(at)).toBe(false);
  }
});

test("a digest is 64 lower-case hexadecimal digits", () => {
  expect(takes(Digest, "0123456789abcdef".repeat(4))).toBe(true);
  for (const text of [
    "",
    "a".repeat(63),
    "a".repeat(65),
    "A".repeat(64),
    "g".repeat(64),
    `${"a".repeat(64)}\n`,
  ]) {
    expect(takes(Digest, text), text).toBe(false);
  }
});
