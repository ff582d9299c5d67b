import { expect, test } from "vitest";
import { createTurnRecord } from "../../bridge/turn-record.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { Settlement } from "../../protocol/settlement.ts";
import { NEW_TURN, type TurnCause, type TurnMachine } from "../../protocol/turn-state.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { fakeResident } from "../support/fake-driver.ts";
import { EVIDENCE, USAGE } from "../support/samples.ts";

const NATIVE: TurnMachine = {
  ...NEW_TURN,
  state: "ended",
  cause: "native",
  wasSubmitted: true,
  sawNativeEnd: true,
  identity: "verified",
};
const early = (cause: TurnCause): TurnMachine => ({ ...NEW_TURN, state: "ended", cause, wasSubmitted: true });

function nativeEnd(status: "completed" | "failed" | "aborted") {
  return {
    kind: "native_end" as const,
    status,
    error: status === "failed" ? { name: "APIError", message: "overloaded" } : null,
    tail: { role: "assistant" as const, id: "msg_1" },
    usage: USAGE,
    evidence: [EVIDENCE],
  };
}

test("a turn that ended natively is told with text, usage, tail and session", () => {
  const record = createTurnRecord(new FakeClock());
  record.output.put("p1", 0, "Größe ");
  record.output.put("p2", 0, "🦑");
  record.context = { status: "LIVE", reason: "resident" };
  record.nativeEnd = nativeEnd("completed");
  const settlement = record.conclude(NATIVE, fakeResident(), true);
  expect(settlement).toMatchObject({
    outcome: "completed",
    settled: true,
    context: "LIVE",
    parts: ["Größe ", "🦑"],
    textIsCut: false,
    textIsPartial: false,
    usage: USAGE,
    error: null,
    keepsProcess: true,
    session: { nativeId: "ses_1", tail: { role: "assistant", id: "msg_1" }, isVerified: true },
  });
  expect(Settlement.safeParse(settlement).success).toBe(true);
});

test("usage that the CLI did not state is unknown, not zero", () => {
  const settlement = createTurnRecord(new FakeClock()).conclude(early("stream_lost"), null, false);
  expect(settlement.usage).toMatchObject({ source: "none", inputTokens: null, outputTokens: null });
});

test("figures that can't be true are unknown, and never make a settlement that is refused", () => {
  for (const wrong of [-5, Number.NaN, Number.POSITIVE_INFINITY]) {
    const record = createTurnRecord(new FakeClock());
    record.nativeEnd = { ...nativeEnd("completed"), usage: { ...USAGE, cacheReadTokens: wrong } };
    const settlement = record.conclude(NATIVE, fakeResident(), true);
    expect(settlement.usage).toMatchObject({ source: "cli", inputTokens: null, cacheReadTokens: null });
    expect(Settlement.safeParse(settlement).success).toBe(true);
  }
});

test("each cause is told by its own code", () => {
  const codes: Array<[TurnCause, string | null]> = [
    ["submit_unclear", "DELIVERY_UNKNOWN"],
    ["first_event_late", "TURN_FIRST_EVENT_LATE"],
    ["end_overdue", "NATIVE_FAILED"],
    ["stream_lost", "STREAM_LOST"],
    ["process_exited", "CLI_EXITED"],
    ["time_limit", "TURN_TIME_LIMIT"],
    ["abort_requested", null],
  ];
  for (const [cause, code] of codes) {
    const settlement = createTurnRecord(new FakeClock()).conclude(early(cause), null, false);
    expect(settlement.error?.code ?? null, cause).toBe(code);
  }
});

test("P27: a lost stream says why it was lost", () => {
  const record = createTurnRecord(new FakeClock());
  record.lostReason = "the native event stream was lost: frame too large";
  expect(record.conclude(early("stream_lost"), null, false).error).toEqual({
    code: "STREAM_LOST",
    message: "the native event stream was lost: frame too large",
    details: {},
  });
  expect(record.conclude(early("time_limit"), null, false).error?.code).toBe("TURN_TIME_LIMIT");
});

test("a refusal, a failed gate and a rejected prompt are told by the error that made them", () => {
  for (const cause of ["refused", "gate_failed", "submit_rejected", "permission_unresolved"] as const) {
    const record = createTurnRecord(new FakeClock());
    record.error = new HoldfastError("CLI_REFUSED", "no");
    expect(record.conclude(early(cause), null, false).error).toMatchObject({
      code: "CLI_REFUSED",
      message: "no",
    });
  }
});

test("a native failure names the CLI's own error, and a later cause of ours does not hide it", () => {
  const record = createTurnRecord(new FakeClock());
  record.nativeEnd = nativeEnd("failed");
  expect(record.conclude(NATIVE, null, false)).toMatchObject({
    outcome: "failed",
    settled: true,
    error: { code: "NATIVE_FAILED", message: "APIError: overloaded" },
  });
});

test("an unverified identity is said beside a completed turn", () => {
  const record = createTurnRecord(new FakeClock());
  record.nativeEnd = nativeEnd("completed");
  const settlement = record.conclude({ ...NATIVE, identity: "verify_unavailable" }, fakeResident(), true);
  expect(settlement).toMatchObject({
    outcome: "completed",
    error: { code: "IDENTITY_UNVERIFIED" },
    session: { isVerified: false },
  });
});

test("F2: a changed identity fails the turn whatever the CLI said", () => {
  const record = createTurnRecord(new FakeClock());
  record.nativeEnd = nativeEnd("completed");
  record.error = new HoldfastError("IDENTITY_CHANGED", "the CLI reports ses_2");
  const settlement = record.conclude({ ...NATIVE, identity: "identity_changed" }, fakeResident(), false);
  expect(settlement).toMatchObject({ outcome: "failed", error: { code: "IDENTITY_CHANGED" } });
});

test("text of a turn that was ended early is marked as partial", () => {
  const record = createTurnRecord(new FakeClock());
  record.output.put("p", 0, "half of");
  const settlement = record.conclude(early("stream_lost"), null, false);
  expect(settlement).toMatchObject({ parts: ["half of"], textIsPartial: true });
});

test("evidence beyond the limit is counted, not dropped in silence", () => {
  const record = createTurnRecord(new FakeClock());
  for (let n = 0; n < 70; n += 1) record.note({ ...EVIDENCE, detail: `piece ${n}` });
  const { evidence } = record.conclude(NATIVE, null, false);
  expect(evidence).toHaveLength(64);
  expect(evidence.at(-1)?.detail).toBe("piece 63 (and 6 later pieces)");
});

test("a long detail is shortened, so that the settlement fits its schema", () => {
  const record = createTurnRecord(new FakeClock());
  record.note({ ...EVIDENCE, detail: "x".repeat(5000) });
  record.context = { status: "LIVE", reason: "y".repeat(5000) };
  record.nativeEnd = { ...nativeEnd("failed"), error: { name: "E", message: "z".repeat(5000) } };
  expect(Settlement.safeParse(record.conclude(NATIVE, null, false)).success).toBe(true);
});

test("S20: each stage is measured from the last one that was passed; a skipped one is null", () => {
  const clock = new FakeClock();
  const record = createTurnRecord(clock);
  clock.advance(2);
  record.mark("admitted");
  clock.advance(30);
  record.mark("prepared");
  clock.advance(5);
  record.mark("gated");
  clock.advance(100);
  record.mark("firstEvent");
  record.mark("firstEvent");
  clock.advance(400);
  record.mark("settled");
  clock.advance(1);
  expect(record.conclude(NATIVE, null, false).timings).toEqual({
    admitMs: 2,
    prepareMs: 30,
    gateMs: 5,
    submitMs: null,
    firstEventMs: 100,
    settleMs: 400,
    verifyMs: null,
    totalMs: 538,
  });
});

test("stages that come out of order never give a negative time", () => {
  const clock = new FakeClock();
  const record = createTurnRecord(clock);
  clock.advance(10);
  // The turn's own event was on the stream before the answer of the prompt was read.
  record.mark("firstEvent");
  clock.advance(5);
  record.mark("submitted");
  const { submitMs, firstEventMs } = record.conclude(NATIVE, null, false).timings;
  expect([submitMs, firstEventMs]).toEqual([15, 0]);
});
