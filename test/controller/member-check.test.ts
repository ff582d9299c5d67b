import { expect, test } from "vitest";
import { checkedMember, checkId } from "../../controller/member-check.ts";
import { OPTIONS } from "../support/member-options.ts";

test("a member that fits is given as it is, without what does not belong to it", () => {
  const given = { cli: "opencode" as const, options: OPTIONS };
  expect(checkedMember(given)).toEqual(given);
  expect(checkedMember({ ...given, options: { ...OPTIONS, extra: 1 } as typeof OPTIONS })).toEqual(given);
});

test("what does not fit is refused with its place", () => {
  const model = { ...OPTIONS.model, contextTokens: -1 };
  expect(() => checkedMember({ cli: "opencode", options: { ...OPTIONS, model } })).toThrow(
    expect.objectContaining({
      code: "REQUEST_INVALID",
      message: expect.stringContaining("options.model.contextTokens"),
    }),
  );
  expect(() => checkedMember({ cli: "none" as "pi", options: OPTIONS })).toThrow(
    expect.objectContaining({ code: "REQUEST_INVALID", message: expect.stringContaining("(cli)") }),
  );
});

test("a model whose protocol the CLI does not speak is refused", () => {
  const model = { ...OPTIONS.model, protocol: "messages" as const };
  expect(() => checkedMember({ cli: "codex", options: { ...OPTIONS, model } })).toThrow(
    expect.objectContaining({ code: "MODEL_PROTOCOL_UNFIT" }),
  );
});

test("an id of ours is safe in a path, or it is refused with what it was to name", () => {
  checkId("a.b-c_1", "sandbox");
  for (const id of ["", "../x", "a b", "-a", "a".repeat(129)])
    expect(() => checkId(id, "sandbox")).toThrow(
      expect.objectContaining({
        code: "REQUEST_INVALID",
        message: expect.stringContaining("sandbox") as string,
      }),
    );
});
