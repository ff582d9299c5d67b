import { expect, test } from "vitest";
import { checkNote, inspectTurn, type Reach } from "../../controller/inspection.ts";
import type { ModelCall } from "../../controller/relay/model-call.ts";
import type { InspectionRow, MemberRow, TurnRow } from "../../controller/store/records.ts";
import type { ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import { OPTIONS } from "../support/member-options.ts";
import { AT, DIGEST_A, EVENTS, LOCATOR, SETTLEMENT } from "../support/samples.ts";
import { CALL } from "./relay/calls.ts";

const TURN: TurnRow = {
  id: "t-1",
  member: "m-1",
  number: 3,
  state: "unknown",
  text_sha256: DIGEST_A,
  text_bytes: 12,
  settlement: { ...SETTLEMENT, outcome: "unknown", settled: false },
  submitted_at: AT,
  ended_at: AT + 1,
  launch: DIGEST_A,
  queued_ms: 0,
};

const MEMBER: MemberRow = {
  id: "m-1",
  sandbox: "box",
  cli: "opencode",
  options: OPTIONS,
  submissions: 3,
  settled_turns: 2,
  locator: LOCATOR,
  pending_locator: null,
  must_prove: null,
  created_at: AT,
};

const NOTE: InspectionRow = { turn: "t-1", at: AT + 2, note: "seen" };

function inspect(
  events: readonly ControlEvent[],
  changes: {
    turn?: Partial<TurnRow>;
    member?: Partial<MemberRow>;
    inspection?: InspectionRow;
    calls?: ModelCall[];
  } = {},
) {
  const numbered: NumberedEvent[] = events.map((event, at) => ({ seq: at + 1, at: AT + at, event }));
  return inspectTurn({
    turn: { ...TURN, ...changes.turn },
    member: { ...MEMBER, ...changes.member },
    events: numbered,
    inspection: changes.inspection ?? null,
    calls: changes.calls ?? [],
  });
}

const tool = (call: string, status: "running" | "completed" | "failed", session = "ses_1"): ControlEvent => ({
  ...EVENTS["turn.tool"],
  call,
  status,
  session,
});

test("how far it came is its furthest step, whatever came between", () => {
  const steps: Array<[ControlEvent["type"], Reach]> = [
    ["turn.accepted", "accepted"],
    ["turn.context", "prepared"],
    ["turn.gated", "gated"],
    ["turn.submitting", "submitting"],
    ["turn.delivered", "delivered"],
  ];
  expect(inspect([]).reach).toBe("admitted");
  steps.forEach(([, reach], at) => {
    const events = steps.slice(0, at + 1).map(([type]) => EVENTS[type]);
    const { reach: found, meaning } = inspect([...events, EVENTS["turn.waiting"]]);
    expect(found).toBe(reach);
    expect(meaning.length).toBeGreaterThan(10);
  });
  expect(inspect([], { turn: { state: "delivered" } }).reach).toBe("delivered");
});

test("tool calls without a result are listed as they began; one with a result is not, nor is one of the same id elsewhere", () => {
  const { openTools } = inspect([
    tool("a", "running"),
    tool("a", "running"),
    tool("b", "running"),
    tool("b", "completed"),
    tool("c", "running"),
    tool("c", "failed"),
    tool("a", "completed", "ses_2"),
  ]);
  expect(openTools).toEqual([{ session: "ses_1", call: "a", tool: "bash", title: "ls", at: AT }]);
});

test("requests that had no answer are listed", () => {
  expect(inspect([EVENTS["turn.permission_asked"], EVENTS["turn.question_asked"]]).openRequests).toEqual([
    EVENTS["turn.permission_asked"],
    EVENTS["turn.question_asked"],
  ]);
});

test("it names the session and the message by which the turn is found in the native history", () => {
  const native = { cli: "opencode", settledTurns: 2, tail: LOCATOR.tail };
  expect(inspect([]).native).toEqual({ ...native, nativeId: "ses_1", message: null });
  const context = { ...EVENTS["turn.context"], nativeId: "ses_7" };
  expect(inspect([context, EVENTS["turn.submitting"]]).native).toEqual({
    ...native,
    nativeId: "ses_7",
    message: "msg_10",
  });
  const first = { locator: null, pending_locator: null, settled_turns: 0 };
  expect(inspect([], { member: first }).native).toMatchObject({ nativeId: null, tail: null });
  const pending = { ...LOCATOR, nativeId: "ses_9" };
  expect(inspect([], { member: { pending_locator: pending } }).native.nativeId).toBe("ses_9");
});

test("an end that the bridge told later is shown, and changes nothing", () => {
  const found = inspect([EVENTS["turn.delivered"], EVENTS["turn.ended"]]);
  expect(found.lateEnd).toEqual(SETTLEMENT);
  expect(found.turn).toEqual(TURN);
  expect(inspect([]).lateEnd).toBeNull();
});

test("only an unknown turn without a note needs one", () => {
  expect(inspect([]).needsNote).toBe(true);
  expect(inspect([], { inspection: NOTE })).toMatchObject({ needsNote: false, inspection: NOTE });
  for (const state of ["admitted", "delivered", "settled", "failed", "not_sent"] as const)
    expect(inspect([], { turn: { state } }).needsNote).toBe(false);
});

test("a note has 1 to 1024 bytes of well-formed text, and stays as it is", () => {
  for (const note of ["x", "x".repeat(1024), "ü".repeat(512), " two\nlines "])
    expect(checkNote(note)).toBe(note);
  for (const note of ["", "x".repeat(1025), "ü".repeat(513), "\ud83e"])
    expect(() => checkNote(note)).toThrow(expect.objectContaining({ code: "NOTE_INVALID" }));
});

test("its calls to the model are named by the ids with which anybody can be asked about them, and by nothing else", () => {
  const { modelCalls } = inspect([], { calls: [{ ...CALL, id: "second" }, CALL] });
  expect(modelCalls.map(({ id }) => id)).toEqual(["second", CALL.id]);
  const { startedAt, path, status, outcome, answerId, providerRequestId, gatewayTraceId } = CALL;
  expect(modelCalls[1]).toEqual({
    id: CALL.id,
    startedAt,
    path,
    status,
    outcome,
    answerId,
    providerRequestId,
    gatewayTraceId,
  });
});
