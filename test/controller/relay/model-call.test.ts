import { expect, test } from "vitest";
import { CALL_OUTCOMES, isUsageDue, ModelCall, purposeOf } from "../../../controller/relay/model-call.ts";
import { CALL } from "./calls.ts";

test("a record is what its schema says, and nothing beside", () => {
  expect(ModelCall.parse(CALL)).toEqual(CALL);
  // As long as a CLI's id may be anywhere else.
  expect(ModelCall.safeParse({ ...CALL, nativeId: "x".repeat(256) }).success).toBe(true);
  for (const wrong of [
    { outcome: "fine" },
    { usage: { ...CALL.usage, inputTokens: 1.5 } },
    { requestSha256: "ab" },
    { model: "x".repeat(201) },
    { member: "../m" },
    { status: -1 },
  ])
    expect(ModelCall.safeParse({ ...CALL, ...wrong }).success, JSON.stringify(wrong)).toBe(false);
  expect(Object.keys(ModelCall.parse({ ...CALL, authorization: "Bearer k" }))).not.toContain("authorization");
});

test("what a call is for is told by its method and path, whatever stands behind them", () => {
  const of = (protocol: ModelCall["protocol"], ...paths: string[]) =>
    paths.map((path) => purposeOf(protocol, "POST", path));
  expect(of("messages", "/messages", "/messages?beta=true", "/messages/")).toEqual(Array(3).fill("generate"));
  expect(of("messages", "/messages/count_tokens?beta=true")).toEqual(["count_tokens"]);
  expect(of("messages", "/messages/batches", "/models")).toEqual(["other", "other"]);
  expect(of("responses", "/responses", "/responses/compact")).toEqual(["generate", "generate"]);
  expect(of("responses", "/responses/resp_1/cancel", "/models")).toEqual(["other", "other"]);
  expect(of("chat-completions", "/chat/completions")).toEqual(["generate"]);
  expect(of("chat-completions", "/embeddings", "/completions")).toEqual(["other", "other"]);
  expect(purposeOf("messages", "GET", "/messages")).toBe("other");
});

test("figures are due of every answer that a model may have made", () => {
  const due = (changes: Partial<ModelCall>) => isUsageDue({ ...CALL, ...changes });
  for (const outcome of CALL_OUTCOMES) {
    expect(due({ outcome }), outcome).toBe(outcome !== "refused");
    expect(due({ outcome, status: null }), outcome).toBe(outcome !== "refused");
  }
  for (const [status, isDue] of [
    [200, true],
    [302, true],
    [399, true],
    [400, false],
    [429, false],
    [499, false],
    [500, true],
    [529, true],
  ] as const)
    expect(due({ status }), String(status)).toBe(isDue);
  expect(due({ purpose: "count_tokens" })).toBe(false);
  expect(due({ purpose: "other" })).toBe(false);
});
