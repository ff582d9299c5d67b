import fc from "fast-check";
import { expect, test } from "vitest";
import { answerId, plainId } from "../../../controller/relay/provider-id.ts";

test("S25: ids of answers are kept by their prefix, at most 128 characters of a plain set", () => {
  for (const id of ["resp_0af", "chatcmpl-9:x.y", "msg_01A_b-c", `resp_${"x".repeat(123)}`])
    expect(answerId(id)).toBe(id);
  for (const id of [
    "gen-1",
    "Resp_1",
    "xresp_1",
    "resp_ 1",
    "resp_1\n",
    "resp_é",
    "resp_https://host/",
    `resp_${"x".repeat(124)}`,
    "",
    7,
    null,
    undefined,
    ["resp_1"],
  ])
    expect(answerId(id)).toBeNull();
});

test("S25: other ids need no prefix, and are as plain", () => {
  for (const id of ["req_011CQ", "3f6a2f1e-7a4e-4c0c-9d7c-0a1b2c3d4e5f", "a", "x".repeat(128)])
    expect(plainId(id)).toBe(id);
  for (const id of ["", "x".repeat(129), "a b", "Bearer sk-1", "a/b", "a=b;c", "a@b", ["a"], {}, 1])
    expect(plainId(id)).toBeNull();
});

test("nothing with a character outside the plain set passes", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const id = plainId(text);
      expect(id === null || /^[A-Za-z0-9_.:-]{1,128}$/.test(id)).toBe(true);
      expect(plainId(`${text} `)).toBeNull();
    }),
  );
});
