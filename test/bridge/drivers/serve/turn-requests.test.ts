import { expect, test } from "vitest";
import type { MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { QuestionRequest } from "../../../../protocol/question.ts";
import { COLOR, on } from "./native.ts";
import { bench, code, ROOT } from "./requests-bench.ts";

test("an event that asks nothing is nobody's here", () => {
  const { requests } = bench();
  for (const event of [on.busy("ses_r"), on.idle("ses_r"), on.user("ses_r", "m"), on.turnOpen("ses_r")]) {
    expect(requests.take(event)).toBe(false);
  }
});

test.each<[MemberPolicy["default"], string]>([
  ["allow", "once"],
  ["deny", "reject"],
])("the policy `%s` answers `%s` at once, and says that it was the policy", async (action, reply) => {
  const { say, api, of } = bench({ policy: { default: action } });
  await say(api.raise("ses_c", "per_1", "call_1"));
  expect(api.replies()).toEqual([`permission per_1 ${reply}`]);
  expect(of("permission_asked")).toEqual([
    {
      kind: "permission_asked",
      request: { request: "per_1", session: "ses_c", permission: "bash", patterns: ["ls"] },
      ancestry: [{ session: "ses_c", title: "explore" }, ROOT],
      action,
      deadlineAt: null,
    },
  ]);
  expect(of("permission_closed")).toMatchObject([{ result: "confirmed", reply, by: "policy" }]);
});

test("a rule by tool and pattern decides against the default, for each request by itself", async () => {
  const { say, api } = bench({
    policy: {
      default: "deny",
      rules: [
        { tool: "bash", pattern: "git *", action: "allow" },
        { tool: "bash", pattern: "git push*", action: "deny" },
      ],
    },
  });
  const ask = async (id: string, permission: string, patterns: string[]) => {
    api.raise("ses_r", id);
    await say(on.asked("ses_r", id, undefined, { permission, patterns }));
  };
  await ask("per_1", "bash", ["git log"]);
  await ask("per_2", "bash", ["git push origin"]);
  await ask("per_3", "edit", ["git log"]);
  await ask("per_4", "bash", ["git log", "rm -rf /"]);
  expect(api.replies()).toEqual([
    "permission per_1 once",
    "permission per_2 reject",
    "permission per_3 reject",
    "permission per_4 reject",
  ]);
});

test("the policy reads every pattern whole, however many and long: what the record cuts is judged all the same", async () => {
  const { say, api, of } = bench({
    policy: { rules: [{ tool: "bash", pattern: "*rm -rf*", action: "deny" }] },
  });
  const many = [...Array.from({ length: 64 }, () => "true"), "rm -rf /"];
  api.raise("ses_r", "per_1");
  await say(on.asked("ses_r", "per_1", undefined, { patterns: many }));
  const long = `echo ${"x".repeat(3000)}; rm -rf /`;
  api.raise("ses_r", "per_2");
  await say(on.asked("ses_r", "per_2", undefined, { patterns: [long] }));
  expect(api.replies()).toEqual(["permission per_1 reject", "permission per_2 reject"]);
  expect(of("permission_asked").map(({ action }) => action)).toEqual(["deny", "deny"]);
  expect(of("permission_asked")[0]?.request.patterns).toHaveLength(64);
  expect(of("permission_asked")[1]?.request.patterns[0]).toHaveLength(2000);
});

const ASKS = { default: "ask", askLimitMs: 30_000, askDefault: "deny" } as const;

test("`ask`: the user has until the deadline; the decision is sent once", async () => {
  const { say, api, of, clock, requests } = bench({ policy: ASKS });
  const askedAt = clock.nowAt();
  await say(api.raise("ses_c", "per_1"));
  expect(of("permission_asked")).toMatchObject([{ action: "ask", deadlineAt: askedAt + 30_000 }]);
  await clock.elapse(29_000);
  expect(api.replies()).toEqual([]);
  requests.answerPermission("ses_c", "per_1", "once");
  expect(() => requests.answerPermission("ses_c", "per_1", "reject")).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(60_000);
  expect(api.replies()).toEqual(["permission per_1 once"]);
  expect(of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "once", by: "user" }]);
});

test.each<[MemberPolicy["askDefault"], string]>([
  ["deny", "reject"],
  ["allow", "once"],
])("`ask` and nobody answers: the default `%s` is sent at the deadline", async (askDefault, reply) => {
  const { say, api, of, clock, requests } = bench({ policy: { ...ASKS, askDefault } });
  await say(api.raise("ses_r", "per_1"));
  await clock.elapse(30_000);
  expect(api.replies()).toEqual([`permission per_1 ${reply}`]);
  expect(of("permission_closed")).toMatchObject([{ reply, by: "deadline" }]);
  expect(() => requests.answerPermission("ses_r", "per_1", "once")).toThrow(code("REQUEST_CLOSED"));
});

test("`ask` for one tool alone: the others are decided at once", async () => {
  const { say, api } = bench({ policy: { rules: [{ tool: "edit", pattern: "*", action: "ask" }] } });
  await say(api.raise("ses_r", "per_1"));
  api.raise("ses_r", "per_2");
  await say(on.asked("ses_r", "per_2", undefined, { permission: "edit", patterns: ["a.txt"] }));
  expect(api.replies()).toEqual(["permission per_1 once"]);
});

test("an answer to another id, another session, a stranger's request or a question is unknown", async () => {
  const { say, api, requests } = bench({ policy: ASKS });
  await say(api.raise("ses_r", "per_1"));
  await say(api.raise("ses_theirs", "per_2"));
  await say(api.ask("ses_r", "que_1"));
  for (const [session, id] of [
    ["ses_r", "per_9"],
    ["ses_c", "per_1"],
    ["ses_theirs", "per_2"],
    ["ses_r", "que_1"],
  ] as const) {
    expect(() => requests.answerPermission(session, id, "once")).toThrow(code("REQUEST_UNKNOWN"));
  }
  expect(api.replies()).toEqual([]);
});

test("a question goes out with where it comes from, its options and its deadline, and is answered in the CLI's own form", async () => {
  const { say, api, of, clock, requests } = bench();
  const askedAt = clock.nowAt();
  await say(api.ask("ses_c", "que_1"));
  expect(of("question_asked")).toEqual([
    {
      kind: "question_asked",
      question: {
        request: "que_1",
        session: "ses_c",
        ancestry: [{ session: "ses_c", title: "explore" }, ROOT],
        items: [{ ...COLOR, isMultiple: false, isOpen: true }],
      },
      deadlineAt: askedAt + 60_000,
    },
  ]);
  requests.answerQuestion("ses_c", "que_1", [["blue"]]);
  await clock.elapse(0);
  expect(api.replies()).toEqual([`question que_1 [["blue"]]`]);
  expect(of("question_closed")).toMatchObject([{ result: "confirmed", reply: "answered", by: "user" }]);
});

test("a question that the user rejects is rejected by the CLI's own call", async () => {
  const { say, api, of, requests, clock } = bench();
  await say(api.ask("ses_r", "que_1"));
  requests.answerQuestion("ses_r", "que_1", null);
  await clock.elapse(0);
  expect(api.replies()).toEqual(["question que_1 null"]);
  expect(of("question_closed")).toMatchObject([{ result: "confirmed", reply: "rejected", by: "user" }]);
});

test("P14: a question that nobody answers is rejected natively at its limit, once, and the record says by whom", async () => {
  const { say, api, of, requests, clock } = bench();
  await say(api.ask("ses_r", "que_1"));
  await clock.elapse(59_999);
  expect(api.replies()).toEqual([]);
  await clock.elapse(60_000);
  expect(api.replies()).toEqual(["question que_1 null"]);
  expect(of("question_closed")).toMatchObject([{ result: "confirmed", reply: "rejected", by: "deadline" }]);
  expect(() => requests.answerQuestion("ses_r", "que_1", [["blue"]])).toThrow(code("REQUEST_CLOSED"));
});

test("P15: one question id from root and child, answered in reverse order: each its own answer, the third is late", async () => {
  const { say, of, requests, clock, api } = bench({ isSilent: true });
  await say(api.ask("ses_r", "que_1"));
  await say(api.ask("ses_c", "que_1"));
  requests.answerQuestion("ses_c", "que_1", [["blue"]]);
  await clock.elapse(2000);
  expect(of("question_closed")).toMatchObject([
    { session: "ses_c", reply: "answered", result: "confirmed", detail: "left the pending list" },
  ]);
  requests.answerQuestion("ses_r", "que_1", [["red"]]);
  await clock.elapse(2000);
  expect(of("question_closed")).toMatchObject([
    { session: "ses_c" },
    { session: "ses_r", result: "confirmed" },
  ]);
  expect(api.replies()).toEqual([`question que_1 [["blue"]]`, `question que_1 [["red"]]`]);
  expect(() => requests.answerQuestion("ses_c", "que_1", [["green"]])).toThrow(code("REQUEST_CLOSED"));
});

const SINGLE = { ...COLOR, multiple: false, custom: false };
const MANY = { ...COLOR, multiple: true, custom: false };

test.each<[string, unknown[], string[][]]>([
  ["too few", [COLOR, COLOR], [["blue"]]],
  ["too many", [COLOR], [["blue"], ["red"]]],
  ["none", [COLOR], []],
  ["an empty one", [COLOR], [[]]],
  ["two where one may be chosen", [SINGLE], [["blue", "red"]]],
  ["one that is not among closed options", [SINGLE], [["green"]]],
  ["a stranger among several", [MANY], [["blue", "green"]]],
])("answers that do not fit (%s) are refused, and the question stays open", async (_what, items, answers) => {
  const { requests, clock, api, of } = bench({ isSilent: true });
  requests.take(api.ask("ses_r", "que_1", items));
  await clock.elapse(0);
  expect(() => requests.answerQuestion("ses_r", "que_1", answers)).toThrow(code("REQUEST_INVALID"));
  await clock.elapse(1000);
  expect(api.replies()).toEqual([]);
  expect(of("question_closed")).toEqual([]);
  requests.answerQuestion(
    "ses_r",
    "que_1",
    items.map(() => ["blue"]),
  );
  await clock.elapse(2000);
  expect(of("question_closed")).toMatchObject([{ result: "confirmed", reply: "answered" }]);
});

test("several options, and an own text, are taken where the CLI takes them", async () => {
  const { requests, clock, api } = bench({ isSilent: true });
  requests.take(api.ask("ses_r", "que_1", [MANY, COLOR]));
  await clock.elapse(0);
  requests.answerQuestion("ses_r", "que_1", [["blue", "red"], ["a text of my own"]]);
  await clock.elapse(0);
  expect(api.replies()).toEqual([`question que_1 [["blue","red"],["a text of my own"]]`]);
});

test.each([0, 17])(
  "a question with %i items can't be put to anybody: it is rejected at once, and its record is a valid one",
  async (count) => {
    const { requests, clock, api, of } = bench();
    requests.take(api.ask("ses_r", "que_1", Array(count).fill(COLOR)));
    await clock.elapse(0);
    expect(api.replies()).toEqual(["question que_1 null"]);
    expect(QuestionRequest.safeParse(of("question_asked")[0]?.question).success).toBe(true);
    expect(of("question_closed")).toMatchObject([{ reply: "rejected", by: "deadline" }]);
  },
);

test("a question beyond the bounds of the wire is cut to them", async () => {
  const { requests, clock, of } = bench();
  const option = { label: "x".repeat(5000), description: "y".repeat(5000) };
  const item = { question: "q".repeat(5000), header: "h".repeat(5000), options: Array(100).fill(option) };
  requests.take(on.question("ses_r", "que_1", [item]));
  await clock.elapse(0);
  expect(QuestionRequest.safeParse(of("question_asked")[0]?.question).success).toBe(true);
});

test("a question that can't be answered or rejected is unresolved, with its own code", async () => {
  const { requests, clock, api, unresolved } = bench();
  api.broken.add("question");
  requests.take(api.ask("ses_r", "que_1"));
  await clock.elapse(0);
  requests.answerQuestion("ses_r", "que_1", [["blue"]]);
  await clock.elapse(20_000);
  expect(unresolved).toHaveLength(1);
  expect(unresolved[0]).toMatch(/^QUESTION_UNRESOLVED POST \/question\/:id: /);
});
