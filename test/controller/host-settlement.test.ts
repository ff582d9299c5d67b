import { expect, test } from "vitest";
import { hostSettlement } from "../../controller/host-settlement.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { Settlement } from "../../protocol/settlement.ts";
import { AT } from "../support/samples.ts";

const GIVEN = {
  outcome: "unknown",
  code: "DELIVERY_UNKNOWN",
  reason: "nobody saw its end",
  what: "sandbox_gone",
  at: AT,
} as const;

test("the host's own settlement settles nothing, counts nothing, and names the host as its witness", () => {
  const settlement = hostSettlement(GIVEN);
  expect(Settlement.parse(settlement)).toEqual(settlement);
  expect(settlement).toMatchObject({
    outcome: "unknown",
    settled: false,
    session: null,
    parts: [],
    textIsPartial: true,
    keepsProcess: false,
    context: null,
    contextReason: "",
    error: { code: "DELIVERY_UNKNOWN", message: "nobody saw its end", details: {} },
  });
  expect(settlement.evidence).toEqual([
    expect.objectContaining({ what: "sandbox_gone", source: "host", at: AT, detail: "nobody saw its end" }),
  ]);
  expect(Object.values(settlement.timings).every((value) => value === null)).toBe(true);
  const { source, ...counters } = settlement.usage;
  expect(source).toBe("none");
  expect(Object.values(counters).every((value) => value === null)).toBe(true);
});

test("what was not sent has no partial text", () => {
  expect(hostSettlement({ ...GIVEN, outcome: "not_sent" }).textIsPartial).toBe(false);
});

test("a context status brings its reason along", () => {
  const lost = hostSettlement({ ...GIVEN, outcome: "refused", code: "CONTEXT_LOST", context: "LOST" });
  expect(lost).toMatchObject({ context: "LOST", contextReason: "nobody saw its end" });
});

test("a reason of any length makes a settlement that can be stored and read again", () => {
  const reason = "x".repeat(LIMITS.reasonChars * 4);
  const settlement = hostSettlement({ ...GIVEN, reason, context: "LOST" });
  expect(Settlement.safeParse(settlement).success).toBe(true);
  expect(settlement.error?.message).toHaveLength(LIMITS.reasonChars);
});
