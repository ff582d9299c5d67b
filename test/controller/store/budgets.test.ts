import { expect, test } from "vitest";
import { UNKNOWN_USAGE } from "../../../controller/relay/call-usage.ts";
import { CALL, chatBody, digestOf, KNOWN } from "../relay/calls.ts";
import { simpleRig } from "./rig.ts";

const code = (name: string) => expect.objectContaining({ code: name });

function rigWith(limitTokens: number) {
  const rig = simpleRig();
  rig.store.calls.budgets.set("m-1", limitTokens);
  return { rig, budgets: () => rig.store.calls.budgets };
}

test("without a budget everything is let through, and nothing is reserved", () => {
  const { store } = simpleRig();
  expect(store.calls.budgets.of("m-1")).toBeNull();
  expect(store.calls.budgets.reserve("c-1", "m-1", 1e9)).toBe(true);
  store.calls.budgets.settle("c-1", 5);
  expect(store.calls.budgets.of("m-1")).toBeNull();
});

test("a budget of one token lets no call through", () => {
  const { budgets } = rigWith(1);
  expect(budgets().reserve("c-1", "m-1", 1)).toBe(false);
  expect(budgets().of("m-1")).toEqual({
    limitTokens: 1,
    spentTokens: 0,
    reservedTokens: 0,
    remainingTokens: 1,
  });
});

test("input and at most 16384 for the answer are reserved, for calls side by side too, and are there after a restart", () => {
  const { rig, budgets } = rigWith(20_000);
  expect(budgets().reserve("c-1", "m-1", 1000)).toBe(true);
  expect(budgets().of("m-1")?.reservedTokens).toBe(17_384);
  expect(budgets().reserve("c-2", "m-1", 2000)).toBe(true);
  expect(budgets().of("m-1")?.reservedTokens).toBe(20_000);
  expect(budgets().reserve("c-3", "m-1", 0)).toBe(false);
  rig.reopen();
  expect(budgets().of("m-1")?.reservedTokens).toBe(20_000);
});

test("what a call has used is spent once; what nobody can tell is all that it had reserved", () => {
  const { budgets } = rigWith(50_000);
  budgets().reserve("c-1", "m-1", 1000);
  budgets().settle("c-1", 1500);
  budgets().settle("c-1", 1500);
  expect(budgets().of("m-1")).toEqual({
    limitTokens: 50_000,
    spentTokens: 1500,
    reservedTokens: 0,
    remainingTokens: 48_500,
  });
  budgets().reserve("c-2", "m-1", 1000);
  budgets().settle("c-2", null);
  expect(budgets().of("m-1")?.spentTokens).toBe(1500 + 17_384);
  budgets().reserve("c-3", "m-1", 1000);
  budgets().settle("c-3", 0);
  expect(budgets().of("m-1")?.spentTokens).toBe(1500 + 17_384);
});

test("what a controller that died had reserved is spent by the next one", () => {
  const { rig, budgets } = rigWith(50_000);
  budgets().reserve("c-1", "m-1", 1000);
  rig.reopen();
  budgets().settleLeft();
  budgets().settleLeft();
  expect(budgets().of("m-1")).toMatchObject({ limitTokens: 50_000, spentTokens: 17_384, reservedTokens: 0 });
});

test("a changed limit keeps what was spent; one that is taken away lets everything through again", () => {
  const { budgets } = rigWith(1000);
  budgets().reserve("c-1", "m-1", 10);
  budgets().settle("c-1", 900);
  budgets().set("m-1", 2000);
  expect(budgets().of("m-1")).toMatchObject({ limitTokens: 2000, spentTokens: 900 });
  budgets().set("m-1", 0);
  expect(budgets().reserve("c-2", "m-1", 0)).toBe(false);
  budgets().set("m-1", null);
  expect(budgets().reserve("c-2", "m-1", 0)).toBe(true);
  expect(() => budgets().set("none", 1)).toThrow(code("MEMBER_UNKNOWN"));
  for (const limit of [-1, 0.5, Number.NaN])
    expect(() => budgets().set("m-1", limit)).toThrow(code("REQUEST_INVALID"));
});

test("S14: a call may use more than was reserved for it; nothing remains then, and never less than that", () => {
  const { budgets } = rigWith(2000);
  budgets().reserve("c-1", "m-1", 1000);
  budgets().settle("c-1", 3010);
  expect(budgets().of("m-1")).toMatchObject({ spentTokens: 3010, remainingTokens: 0 });
  expect(budgets().reserve("c-2", "m-1", 1)).toBe(false);
});

test("S14: what the provider counted corrects the next estimate of a history that only grew, and of no other", () => {
  const estimated = (next: string[], usage: typeof KNOWN, more: object = {}) => {
    const { rig, budgets } = rigWith(1_000_000);
    const first = digestOf(chatBody(["a", "b"]));
    budgets().reserve("c-1", "m-1", 1000, { nativeId: "ses_1", digest: first });
    rig.store.calls.record({ ...CALL, id: "c-1", usage }, first);
    budgets().settle("c-1", 0);
    rig.reopen();
    budgets().reserve("c-2", "m-1", 1300, { nativeId: "ses_1", digest: digestOf(chatBody(next, more)) });
    return (budgets().of("m-1")?.reservedTokens ?? 0) - 16_384;
  };
  const counted = { ...KNOWN, allInputTokens: 600 };
  expect(estimated(["a", "b", "c"], counted)).toBe(960);
  expect(estimated(["a", "other", "c"], counted)).toBe(1300);
  expect(estimated(["a"], counted)).toBe(1300);
  expect(estimated(["a", "b", "c"], counted, { model: "m2" })).toBe(1300);
  expect(estimated(["a", "b", "c"], counted, { temperature: 1 })).toBe(1300);
  expect(estimated(["a", "b", "c"], UNKNOWN_USAGE)).toBe(1300);
});
