import { expect, test } from "vitest";
import { parsedJson } from "../../controller/parsed-json.ts";

test("JSON is parsed, and what is none becomes undefined instead of an exception", () => {
  expect(parsedJson('{"a":[1,null]}')).toEqual({ a: [1, null] });
  expect(parsedJson("null")).toBeNull();
  for (const text of ["", "{", "undefined", "<html>", "1 2"]) expect(parsedJson(text)).toBeUndefined();
});
