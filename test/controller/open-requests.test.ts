import { expect, test } from "vitest";
import { openRequests } from "../../controller/open-requests.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { EVENTS, PERMISSION, QUESTION } from "../support/samples.ts";

const numbered = (...events: ControlEvent[]) => events.map((event, at) => ({ seq: at + 1, at: 0, event }));
const asked = EVENTS["turn.permission_asked"];
const closed = EVENTS["turn.permission_closed"];
const questioned = EVENTS["turn.question_asked"];

test("what was asked and not closed waits, oldest first", () => {
  expect(openRequests(numbered(questioned, EVENTS["turn.tool"], asked))).toEqual([questioned, asked]);
});

test("a permission that the policy decides waits for nobody", () => {
  for (const action of ["allow", "deny"] as const)
    expect(openRequests(numbered({ ...asked, action }))).toEqual([]);
});

test("a closed request waits no more, however it was closed", () => {
  for (const result of ["confirmed", "unresolved", "withdrawn", "closed_by_end"] as const) {
    expect(openRequests(numbered(asked, { ...closed, result }))).toEqual([]);
    const end = { ...EVENTS["turn.question_closed"], session: QUESTION.session, result };
    expect(openRequests(numbered(questioned, end))).toEqual([]);
  }
});

test("one id in two sessions is two requests, and so it is of two kinds", () => {
  const child = { ...asked, request: { ...PERMISSION, session: "ses_child" } };
  expect(openRequests(numbered(asked, child, closed))).toEqual([child]);
  const same = {
    ...questioned,
    question: { ...QUESTION, session: PERMISSION.session, request: PERMISSION.request },
  };
  expect(openRequests(numbered(asked, same, closed))).toEqual([same]);
});
