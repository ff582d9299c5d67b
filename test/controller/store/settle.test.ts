import { expect, test } from "vitest";
import type { MemberRow } from "../../../controller/store/records.ts";
import { settleMember, statedUsage } from "../../../controller/store/settle.ts";
import type { Settlement } from "../../../protocol/settlement.ts";
import { OPTIONS } from "../../support/member-options.ts";
import { AT, CONTAINER, LOCATOR, SETTLEMENT } from "../../support/samples.ts";

const SESSION = SETTLEMENT.session as NonNullable<Settlement["session"]>;
const RETAINED: MemberRow = {
  id: "m-1",
  sandbox: "box-1",
  cli: "opencode",
  options: OPTIONS,
  submissions: 3,
  settled_turns: 2,
  locator: LOCATOR,
  pending_locator: null,
  must_prove: null,
  created_at: AT,
};
const NEW: MemberRow = { ...RETAINED, settled_turns: 0, locator: null };
const PENDING = { ...LOCATOR, settledTurns: 3 };
const FAILED: Settlement = {
  ...SETTLEMENT,
  outcome: "failed",
  error: { code: "NATIVE_FAILED", message: "the provider said no", details: {} },
};

function settle(member: MemberRow, settlement: Settlement, ownerOfNativeId: string | null = "m-1") {
  return settleMember({ member, container: CONTAINER, cliVersion: "2.0.0", settlement, ownerOfNativeId });
}

test("a verified settlement saves a locator that names what was seen", () => {
  const result = settle(NEW, SETTLEMENT, null);
  expect(result.settlement).toBe(SETTLEMENT);
  expect(result.settledTurns).toBe(1);
  expect(result.pending).toBeNull();
  expect(result.locator).toEqual({
    format: 1,
    cli: "opencode",
    cliVersion: "2.0.0",
    nativeId: "ses_1",
    directory: "/workspace",
    container: CONTAINER,
    settledTurns: 1,
    tail: { role: "assistant", id: "msg_11" },
  });
});

test("a settled failure counts and saves as a success does", () => {
  const result = settle(RETAINED, FAILED);
  expect(result.settledTurns).toBe(3);
  expect(result.locator?.settledTurns).toBe(3);
  expect(result.settlement).toBe(FAILED);
});

test("what did not settle leaves the member as it was", () => {
  for (const settlement of [
    { ...SETTLEMENT, settled: false },
    { ...SETTLEMENT, session: null },
    { ...FAILED, settled: false, outcome: "stream_lost" as const },
  ]) {
    expect(settle(RETAINED, settlement)).toEqual({
      settlement,
      settledTurns: 2,
      locator: null,
      pending: null,
    });
    expect(settle({ ...RETAINED, pending_locator: PENDING }, settlement).pending).toBe(PENDING);
  }
});

test("F2: a changed id on a continuation fails the turn and saves nothing, completed or failed", () => {
  for (const settlement of [SETTLEMENT, FAILED]) {
    const foreign = { ...settlement, session: { ...SESSION, nativeId: "ses_2" } };
    const result = settle(RETAINED, foreign);
    expect(result).toMatchObject({ settledTurns: 2, locator: null, pending: null });
    expect(result.settlement.outcome).toBe("failed");
    expect(result.settlement.error?.code).toBe("IDENTITY_CHANGED");
    expect(result.settlement.error?.message).toMatch(/ses_1.*ses_2/);
    expect(result.settlement.parts).toEqual(settlement.parts);
  }
});

test("the pending locator's id is held against a turn like a saved one's", () => {
  const member = { ...NEW, settled_turns: 1, pending_locator: { ...LOCATOR, settledTurns: 1 } };
  const foreign = { ...SETTLEMENT, session: { ...SESSION, nativeId: "ses_2" } };
  expect(settle(member, foreign).settlement.error?.code).toBe("IDENTITY_CHANGED");
  expect(settle(member, foreign).pending).toBe(member.pending_locator);
});

test("the bridge's own verdict of a changed id saves nothing, whatever session it names", () => {
  const settlement: Settlement = {
    ...SETTLEMENT,
    outcome: "failed",
    error: { code: "IDENTITY_CHANGED", message: "other", details: {} },
  };
  expect(settle(RETAINED, settlement)).toMatchObject({ settledTurns: 2, locator: null });
});

test("a native id of another member fails the turn, also the first one", () => {
  for (const member of [NEW, RETAINED]) {
    const result = settle(member, SETTLEMENT, "m-2");
    expect(result).toMatchObject({ settledTurns: member.settled_turns, locator: null, pending: null });
    expect(result.settlement.error).toMatchObject({ code: "IDENTITY_CHANGED" });
    expect(result.settlement.outcome).toBe("failed");
  }
});

test("an id that was not verified waits: the saved locator stays, and the turn counts", () => {
  const settlement = { ...SETTLEMENT, session: { ...SESSION, isVerified: false } };
  const result = settle(RETAINED, settlement);
  expect(result.locator).toBeNull();
  expect(result.settledTurns).toBe(3);
  expect(result.pending).toMatchObject({ nativeId: "ses_1", settledTurns: 3 });
});

test("a verified settlement clears what was pending", () => {
  const member = { ...RETAINED, settled_turns: 3, pending_locator: PENDING };
  expect(settle(member, SETTLEMENT)).toMatchObject({ settledTurns: 4, pending: null });
});

test("a turn that failed before any message keeps the earlier tail", () => {
  const settlement = { ...FAILED, session: { ...SESSION, tail: null } };
  expect(settle(RETAINED, settlement).locator?.tail).toEqual(LOCATOR.tail);
  expect(settle(NEW, settlement, null).locator?.tail).toBeNull();
});

test("usage is stated of every turn that may have reached its CLI", () => {
  expect(statedUsage(SETTLEMENT)).toBe(JSON.stringify(SETTLEMENT.usage));
  for (const outcome of ["failed", "unknown", "aborted"] as const)
    expect(statedUsage({ ...SETTLEMENT, outcome })).not.toBeNull();
  for (const outcome of ["not_sent", "refused"] as const)
    expect(statedUsage({ ...SETTLEMENT, outcome })).toBeNull();
});
