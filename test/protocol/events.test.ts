import { expect, test } from "vitest";
import { ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { dispensableFields, NO_COUNTS, NO_IDS, NO_NATIVE_IDS, wrongBounds } from "../support/bounds.ts";
import { AT, EVENTS, EVIDENCE } from "../support/samples.ts";

const LONG = "x".repeat(LIMITS.reasonChars);
const CLOSINGS = ["confirmed", "unresolved", "withdrawn", "closed_by_end"];
const NO_REASONS = [`${LONG}x`, null, 1];

// What each event has beside its type, its member and its turn.
const BOUNDS: Record<ControlEvent["type"], Parameters<typeof wrongBounds>[2]> = {
  "turn.accepted": [{ at: "number", good: [0], bad: NO_COUNTS }],
  "turn.context": [
    { at: "status", good: ["NEW", "LIVE", "RESTORED", "LOST"], bad: ["new", null] },
    { at: "reason", good: ["", LONG], bad: NO_REASONS },
    { at: "nativeId", good: [null, "ses_1"], bad: NO_NATIVE_IDS.filter((id) => id !== null) },
  ],
  "turn.gated": [{ at: "evidence", bad: [null, {}, { ...EVIDENCE, source: "hope" }] }],
  "turn.submitting": [{ at: "nativeMessage", good: ["msg_1"], bad: NO_NATIVE_IDS }],
  "turn.delivered": [],
  "turn.waiting": [
    { at: "reason", good: ["", LONG], bad: NO_REASONS },
    { at: "attempt", good: [0], bad: NO_COUNTS },
    { at: "nextAt", good: [null, 0], bad: [-1, "soon", undefined] },
  ],
  "turn.tool": [
    { at: "session", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "call", good: ["call_1"], bad: NO_NATIVE_IDS },
    { at: "tool", good: ["", "x".repeat(128)], bad: ["x".repeat(129), null] },
    { at: "status", good: ["running", "completed", "failed"], bad: ["done", null] },
    { at: "title", good: ["", LONG], bad: NO_REASONS },
  ],
  "turn.permission_asked": [
    { at: "request", bad: [null, {}, "per_1"] },
    { at: "request.request", bad: NO_NATIVE_IDS },
    { at: "ancestry", good: [[]], bad: [null, [{}], Array(33).fill({ session: "s", title: "" })] },
    { at: "action", good: ["allow", "deny", "ask"], bad: ["once", null] },
    { at: "deadlineAt", good: [null, 0], bad: [-1, undefined] },
  ],
  "turn.permission_closed": [
    { at: "request", good: ["per_1"], bad: NO_NATIVE_IDS },
    { at: "session", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "result", good: CLOSINGS, bad: ["lost", null] },
    { at: "reply", good: [null, "once", "reject"], bad: ["always", undefined] },
    { at: "by", good: [null, "policy", "user", "deadline"], bad: ["nobody", undefined] },
    { at: "detail", good: ["", LONG], bad: NO_REASONS },
  ],
  "turn.question_asked": [
    { at: "question", bad: [null, {}] },
    { at: "question.session", bad: NO_NATIVE_IDS },
    { at: "deadlineAt", good: [0], bad: [null, -1] },
  ],
  "turn.question_closed": [
    { at: "request", good: ["que_1"], bad: NO_NATIVE_IDS },
    { at: "session", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "result", good: CLOSINGS, bad: ["lost", null] },
    { at: "reply", good: [null, "answered", "rejected"], bad: ["once", undefined] },
    { at: "by", good: [null, "policy", "user", "deadline"], bad: ["nobody", undefined] },
    { at: "detail", good: ["", LONG], bad: NO_REASONS },
  ],
  "turn.ended": [
    { at: "number", good: [0], bad: NO_COUNTS },
    { at: "settlement", bad: [null, {}] },
    { at: "settlement.outcome", bad: ["won"] },
  ],
  "turn.vetoed": [],
  "member.process": [
    { at: "processGeneration", good: [0], bad: NO_COUNTS },
    { at: "state", good: ["started", "ready", "exited", "retired"], bad: ["gone", null] },
    { at: "detail", good: ["", LONG], bad: NO_REASONS },
  ],
  "member.subscription": [
    { at: "subscription", good: [0], bad: NO_COUNTS },
    { at: "state", good: ["live", "lost", "closed"], bad: ["silent", null] },
    { at: "detail", good: ["", LONG], bad: NO_REASONS },
  ],
  "member.unrequested": [
    { at: "session", good: ["ses_1"], bad: NO_NATIVE_IDS },
    { at: "state", good: ["started", "ended"], bad: ["running", null] },
    { at: "detail", good: ["", LONG], bad: NO_REASONS },
  ],
};

for (const [type, sample] of Object.entries(EVENTS)) {
  test(`${type} is accepted as it is, and refused beyond each of its bounds`, () => {
    expect(ControlEvent.parse(sample)).toEqual(sample);
    const ids = Object.keys(sample).filter((field) => field === "member" || field === "turn");
    const bounds = [...BOUNDS[sample.type], ...ids.map((at) => ({ at, good: ["x"], bad: NO_IDS }))];
    expect(wrongBounds(ControlEvent, sample, bounds)).toEqual([]);
    expect(dispensableFields(ControlEvent, sample)).toEqual([]);
  });
}

test("an event of an unknown type is refused, and unknown fields of a known one are ignored", () => {
  for (const type of ["turn.danced", "", null, "constructor"]) {
    expect(ControlEvent.safeParse({ ...EVENTS["turn.vetoed"], type }).success, String(type)).toBe(false);
  }
  expect(ControlEvent.parse({ ...EVENTS["turn.vetoed"], mood: "fine" })).toEqual(EVENTS["turn.vetoed"]);
});

test("every event names its member, and those of a turn name the turn", () => {
  for (const event of Object.values(EVENTS)) {
    expect(event.member).toBe("m-1");
    expect("turn" in event, event.type).toBe(event.type.startsWith("turn."));
  }
});

test("a numbered event has its place and its time", () => {
  const sample = { seq: 1, at: AT, event: EVENTS["turn.vetoed"] };
  const bounds = [
    { at: "seq", good: [0], bad: NO_COUNTS },
    { at: "at", good: [0], bad: [-1, null] },
    { at: "event", bad: [null, {}] },
  ];
  expect(wrongBounds(NumberedEvent, sample, bounds)).toEqual([]);
  expect(dispensableFields(NumberedEvent, sample)).toEqual([]);
});
