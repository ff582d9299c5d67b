import { expect, test } from "vitest";
import { fittingId, observedEvent, type Recorded } from "../../bridge/observed-event.ts";
import { ControlEvent } from "../../protocol/events.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { EVENTS } from "../support/samples.ts";

const ids = { member: "m-1", turn: "t-1" };
const KINDS = {
  tool: "turn.tool",
  waiting: "turn.waiting",
  permission_asked: "turn.permission_asked",
  permission_closed: "turn.permission_closed",
  question_asked: "turn.question_asked",
  question_closed: "turn.question_closed",
} as const satisfies Record<Recorded["kind"], ControlEvent["type"]>;

test("each recorded observation becomes its event, field by field", () => {
  for (const [kind, type] of Object.entries(KINDS)) {
    const { type: _, member: __, turn: ___, ...fields } = EVENTS[type];
    expect(observedEvent(ids, { kind, ...fields } as Recorded)).toEqual(EVENTS[type]);
  }
});

test("texts of a CLI that exceed the wire's bounds are cut, so that its event is not refused", () => {
  const long = "x".repeat(LIMITS.reasonChars + 100);
  const { type: _, member: __, turn: ___, ...closed } = EVENTS["turn.permission_closed"];
  const { type: ____, member: _____, turn: ______, ...tool } = EVENTS["turn.tool"];
  for (const observation of [
    { kind: "permission_closed", ...closed, detail: long },
    { kind: "tool", ...tool, tool: long, title: long },
    { kind: "waiting", reason: long, attempt: 1, nextAt: null },
  ] as const) {
    expect(ControlEvent.safeParse(observedEvent(ids, observation)).success, observation.kind).toBe(true);
  }
});

test("ids that a provider gave its tool calls, and figures of a CLI, never make an event that is refused", () => {
  const { type: _, member: __, turn: ___, ...tool } = EVENTS["turn.tool"];
  const { type: ____, member: _____, turn: ______, ...question } = EVENTS["turn.question_asked"];
  const { type: _______, member: ________, turn: _________, ...permission } = EVENTS["turn.permission_asked"];
  const ids_ = ["", "call 1", "call\u0001\n", "c".repeat(300), `${"c".repeat(255)} \u0000`];
  const observations: Recorded[] = [
    ...ids_.flatMap((id): Recorded[] => [
      { kind: "tool", ...tool, call: id },
      { kind: "tool", ...tool, session: id },
      { kind: "permission_asked", ...permission, ancestry: [{ session: id, title: "" }] },
      {
        kind: "question_asked",
        ...question,
        question: { ...question.question, ancestry: [{ session: id, title: "" }] },
      },
    ]),
    { kind: "question_asked", ...question, deadlineAt: -1 },
    ...[-1, 1.5, Number.NaN].map(
      (attempt): Recorded => ({ kind: "waiting", reason: "", attempt, nextAt: null }),
    ),
    { kind: "waiting", reason: "", attempt: 1, nextAt: -1 },
  ];
  for (const observation of observations)
    expect(ControlEvent.safeParse(observedEvent(ids, observation)).success, JSON.stringify(observation)).toBe(
      true,
    );
  expect(fittingId("call 1")).toBe("call_1");
  expect(fittingId("call_1")).toBe("call_1");
});
