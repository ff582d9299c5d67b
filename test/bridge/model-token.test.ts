import { expect, test } from "vitest";
import { modelToken } from "../../bridge/model-token.ts";
import { readModelToken } from "../../protocol/model-token.ts";

const CALLER = { member: "m-1", epoch: 3, processGeneration: 12 };

test("a token names its process, and nothing of the sandbox's own token is in it", () => {
  const secret = "a".repeat(64);
  const token = modelToken(secret, CALLER);
  expect(readModelToken(token)?.caller).toEqual(CALLER);
  expect(token).not.toContain("aaaa");
  expect(token).toMatch(/^[!-~]+$/);
});

test("each process has another one, and so has the same process in another sandbox", () => {
  const made = [
    modelToken("secret", CALLER),
    modelToken("another", CALLER),
    modelToken("secret", { ...CALLER, member: "m-2" }),
    modelToken("secret", { ...CALLER, epoch: 4 }),
    modelToken("secret", { ...CALLER, processGeneration: 13 }),
  ].map((token) => readModelToken(token)?.proof);
  expect(new Set(made).size).toBe(5);
  expect(modelToken("secret", CALLER)).toBe(modelToken("secret", CALLER));
});
