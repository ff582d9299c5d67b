import { expect, test } from "vitest";
import { readAsk } from "../../../../bridge/drivers/codex/native-asks.ts";
import { openTurnRequests } from "../../../../bridge/drivers/codex/turn-requests.ts";
import type { LaunchRequest, Observation } from "../../../../bridge/drivers/driver.ts";
import { DEFAULT_LIMITS } from "../../../../protocol/bridge-config.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { LAUNCH } from "../../../support/samples.ts";

const ASK: MemberPolicy = { ...ALLOW_ALL, default: "ask", askLimitMs: 1000 };

function rig(permissions: MemberPolicy = ASK, send: () => Promise<void> = async () => undefined) {
  const clock = new FakeClock();
  const sent: Array<[unknown, unknown]> = [];
  const seen: Observation[] = [];
  const unresolved: string[] = [];
  const launch = { ...LAUNCH, permissions };
  const limits = { ...DEFAULT_LIMITS, questionMs: 500 };
  const requests = openTurnRequests({
    request: { clock, limits, launch } as unknown as LaunchRequest,
    ancestry: (session) => [{ session, title: "" }],
    send: (native, result) => {
      sent.push([native, result]);
      return send();
    },
    report: (observation) => seen.push(observation),
    onUnresolved: (code) => unresolved.push(code),
  });
  const ask = (id: number, method: string, params: object) => {
    const read = readAsk({ id, method, params: { threadId: "t", turnId: "u", itemId: `i${id}`, ...params } });
    if (read === null) throw new Error("no ask");
    requests.asked(read);
  };
  return {
    clock,
    sent,
    seen,
    unresolved,
    requests,
    command: (id: number) => ask(id, "item/commandExecution/requestApproval", { command: "ls" }),
    question: (id: number, questions: unknown[] = [QUESTION]) =>
      ask(id, "item/tool/requestUserInput", { questions }),
    kinds: () => seen.map(({ kind }) => kind),
  };
}

const QUESTION = { id: "q", header: "Q", question: "Q?", options: [{ label: "blue", description: "" }] };

test.each([
  ["allow", "accept", "once"],
  ["deny", "decline", "reject"],
] as const)("the policy's %s is given at once, and confirmed by codex", (action, decision, reply) => {
  const { command, sent, seen, requests } = rig({ ...ALLOW_ALL, default: action });
  command(0);
  expect(sent).toEqual([[0, { decision }]]);
  requests.resolved(0);
  expect(seen).toMatchObject([
    { kind: "permission_asked", action, deadlineAt: null, request: { request: "0", patterns: ["ls"] } },
    { kind: "permission_closed", request: "0", result: "confirmed", reply, by: "policy" },
  ]);
});

test("the user's answer is given once; late, doubled and foreign ones are refused", () => {
  const { command, sent, requests } = rig();
  command(4);
  const code = (run: () => void) => {
    try {
      run();
      return null;
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  expect(code(() => requests.answerPermission("other", "4", "once"))).toBe("REQUEST_UNKNOWN");
  expect(code(() => requests.answerPermission("t", "5", "once"))).toBe("REQUEST_UNKNOWN");
  expect(code(() => requests.answerQuestion("t", "4", null))).toBe("REQUEST_UNKNOWN");
  expect(code(() => requests.answerPermission("t", "4", "once"))).toBeNull();
  expect(code(() => requests.answerPermission("t", "4", "reject"))).toBe("REQUEST_CLOSED");
  requests.resolved(4);
  expect(code(() => requests.answerPermission("t", "4", "reject"))).toBe("REQUEST_CLOSED");
  expect(sent).toEqual([[4, { decision: "accept" }]]);
});

test("a request that nobody answers in time is decided by the policy's word for that", async () => {
  const { command, clock, sent, seen, requests } = rig();
  command(0);
  await clock.elapse(1000);
  requests.resolved(0);
  expect(sent).toEqual([[0, { decision: "decline" }]]);
  expect(seen.at(-1)).toMatchObject({ kind: "permission_closed", by: "deadline", reply: "reject" });
});

test("a question is told as a call of its tool, answered by id, and seen to be over", () => {
  const { question, sent, seen, requests } = rig();
  question(3);
  expect(() => requests.answerQuestion("t", "3", [["red"]])).toThrow(
    expect.objectContaining({ code: "REQUEST_INVALID" }),
  );
  requests.answerQuestion("t", "3", [["blue"]]);
  requests.resolved(3);
  expect(sent).toEqual([[3, { answers: { q: { answers: ["blue"] } } }]]);
  expect(seen).toMatchObject([
    { kind: "tool", tool: "request_user_input", call: "i3", status: "running" },
    { kind: "question_asked", question: { request: "3", session: "t" } },
    { kind: "question_closed", result: "confirmed", reply: "answered", by: "user" },
    { kind: "tool", call: "i3", status: "completed" },
  ]);
});

test("a question that is rejected, late, or can't be put gets no answers", async () => {
  const { question, clock, sent, seen, requests } = rig();
  question(0);
  requests.answerQuestion("t", "0", null);
  question(1);
  await clock.elapse(500);
  question(2, []);
  await clock.elapse(0);
  for (const id of [0, 1, 2]) requests.resolved(id);
  expect(sent.map(([, result]) => result)).toEqual([{ answers: {} }, { answers: {} }, { answers: {} }]);
  expect(
    seen.flatMap((each) => (each.kind === "question_closed" ? [`${each.reply} ${each.by}`] : [])),
  ).toEqual(["rejected user", "rejected deadline", "rejected deadline"]);
});

test("what codex answers by itself is withdrawn, and what the turn's end leaves open is closed by it", () => {
  const { command, question, seen, sent, requests } = rig();
  question(0);
  requests.resolved(0);
  command(1);
  requests.close("the turn ended");
  requests.resolved(1);
  command(2);
  expect(sent).toEqual([]);
  expect(seen.flatMap((each) => ("result" in each ? [each.result] : []))).toEqual([
    "withdrawn",
    "closed_by_end",
  ]);
});

test("a reply that the pipe does not take is unresolved, once", async () => {
  const { command, question, unresolved, clock, requests } = rig(ASK, () =>
    Promise.reject(new Error("full")),
  );
  command(0);
  requests.answerPermission("t", "0", "once");
  question(1);
  requests.answerQuestion("t", "1", null);
  await clock.elapse(0);
  expect(unresolved.sort()).toEqual(["PERMISSION_UNRESOLVED", "QUESTION_UNRESOLVED"]);
});
