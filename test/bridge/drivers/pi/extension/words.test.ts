import { expect, test } from "vitest";
import { ALLOW, REJECT } from "../../../../../bridge/drivers/pi/extension/words.ts";

test("the two answers to a permission can't be taken for one another", () => {
  expect(ALLOW).not.toBe(REJECT);
});
