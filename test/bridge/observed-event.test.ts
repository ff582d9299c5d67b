import { expect, test } from "vitest";
import { observedEvent, type Recorded } from "../../bridge/observed-event.ts";
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
