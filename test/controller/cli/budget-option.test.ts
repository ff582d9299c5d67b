import { expect, test } from "vitest";
import { readBudget } from "../../../controller/cli/budget-option.ts";

test("a whole number of tokens is a budget, 0 is none, and nothing leaves what is", () => {
  expect(readBudget("1")).toBe(1);
  expect(readBudget("200000")).toBe(200_000);
  expect(readBudget("0")).toBeNull();
  expect(readBudget(undefined)).toBeUndefined();
});

test("anything else is said", () => {
  for (const given of ["", "-1", "1.5", "1e6", "100k", " 1", "9".repeat(16), "9".repeat(40)])
    expect(() => readBudget(given)).toThrow(expect.objectContaining({ code: "USAGE" }));
});
