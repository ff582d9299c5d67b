import { expect, test } from "vitest";
import { literal, toPostgres, toValue } from "../../../../controller/store/postgres/dialect.ts";

test("parameters are numbered in their order, or keep the number that they have", () => {
  expect(toPostgres("UPDATE a SET b = ? WHERE c = ?")).toBe("UPDATE a SET b = $1 WHERE c = $2");
  expect(toPostgres("VALUES (?1, ?2) ON CONFLICT DO UPDATE SET b = ?2")).toBe(
    "VALUES ($1, $2) ON CONFLICT DO UPDATE SET b = $2",
  );
  expect(toPostgres("SELECT ?12")).toBe("SELECT $12");
});

test("what stands between quotes is text, with quotes in it too", () => {
  expect(toPostgres("SELECT 'why?' || ? || 'it''s ?' || ?")).toBe("SELECT 'why?' || $1 || 'it''s ?' || $2");
});

test("text without a zero character is passed as it is, byte for byte", () => {
  const bytes = new Uint8Array([0, 1]);
  for (const value of ["é\u{1F600}'\\", 1.5, null, bytes]) expect(toValue(value)).toBe(value);
  expect(toValue("a\0b\0")).toBe("a\uFFFDb\uFFFD");
  expect(toValue(9007199254740993n)).toBe("9007199254740993");
  for (const value of [undefined, true, {}]) expect(() => toValue(value)).toThrow(TypeError);
});

test("a literal ends where its text ends", () => {
  expect(literal("it's")).toBe("'it''s'");
  expect(literal("a\0")).toBe("'a\uFFFD'");
});
