import { expect, test } from "vitest";
import type { AskPlan } from "../../../stand-ins/serve/script.ts";
import { running, steps, submit, textOf, together } from "./rig.ts";

const asking = (ask: AskPlan = {}) => ({ turns: [steps({ tool: "bash", ask }, { text: "done" })] });

test("P11: the root's request gets one reply, with the body that the API wants, and the turn goes on", async () => {
  const { rig, resident } = await running(asking());
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(textOf(rig)).toBe("done");
  const asked = rig.of("permission_asked");
  expect(asked).toMatchObject([
    { request: { session: resident.nativeId, permission: "bash", patterns: ["ls -la"] } },
  ]);
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "once" }]);
  const replies = await rig.calls("/reply");
  expect(replies).toEqual([
    { method: "POST", path: `/permission/${asked[0]?.request.request}/reply`, body: { reply: "once" } },
  ]);
  await resident.stop();
});

const DENY = { default: "deny" } as const;

test("the policy `deny` rejects, and the turn ends as the CLI ends it", async () => {
  const { rig, resident } = await running(asking(), {}, DENY);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "reject", by: "policy" }]);
  expect(rig.of("tool").at(-1)).toMatchObject({ status: "failed" });
  await resident.stop();
});

test("two at once under `deny`: the CLI's cascade is noticed, each is closed once", async () => {
  const { rig, resident } = await running({ turns: [steps({ tools: [{}, {}] })] }, {}, DENY);
  await rig.seen("native_end");
  expect(rig.of("permission_unresolved")).toEqual([]);
  expect(rig.of("permission_closed").map(({ result: closed }) => closed)).toEqual(["confirmed", "confirmed"]);
  await resident.stop();
});

test("two at once under `allow`: one reply each", async () => {
  const { rig, resident } = await running({ turns: [steps({ tools: [{}, {}] }, { text: "done" })] });
  await rig.seen("native_end");
  expect(await rig.calls("/reply")).toHaveLength(2);
  await resident.stop();
});

test("P8: a Task child's request, and its grandchild's, get their reply; the turn ends once, with the root's text", async () => {
  const { rig, resident } = await running({
    turns: [
      steps(
        {
          task: [
            { tool: "bash", ask: {} },
            { task: [{ tool: "edit", ask: { first: true } }, { text: "low" }] },
            { text: "mid" },
          ],
        },
        { text: "top" },
      ),
    ],
  });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(textOf(rig)).toBe("top");
  expect(rig.of("permission_closed").map(({ result }) => result)).toEqual(["confirmed", "confirmed"]);
  const sessions = new Set(rig.of("permission_asked").map(({ request }) => request.session));
  expect(sessions.size).toBe(2);
  expect(sessions).not.toContain(resident.nativeId);
  expect(rig.of("native_end")).toHaveLength(1);
  await resident.stop();
});

test("P8: a request that comes before its session's ancestry is known is held, looked up and answered", async () => {
  const { rig, resident } = await running({
    turns: [
      steps({ task: [{ tool: "bash", ask: {} }, { text: "x" }], unseen: true, lookups: 2 }, { text: "top" }),
    ],
  });
  await rig.seen("native_end");
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "once" }]);
  await resident.stop();
});

test("P7: a request of a session that is not ours gets no reply, also while ours is answered", async () => {
  const { rig, resident } = await running({
    turns: [steps({ hold: true }, { tool: "bash", ask: {} }, { text: "done" })],
  });
  const stranger = await rig.launchStranger();
  for (const [id, sessionID] of [
    ["per_theirs", stranger],
    ["per_nobody", "ses_nobody"],
  ]) {
    const properties = { id, sessionID, permission: "bash", patterns: [] };
    await rig.command({ emit: { type: "permission.asked", properties } });
    await expect.poll(() => rig.calls(`GET /session/${sessionID}`)).not.toEqual([]);
  }
  await rig.command({ go: true });
  await rig.seen("native_end");
  expect(await rig.calls("per_theirs")).toEqual([]);
  expect(await rig.calls("per_nobody")).toEqual([]);
  expect(rig.of("permission_asked")).toHaveLength(1);
  await resident.stop();
});

test("a one-shot reply that fails is retried with the same decision, and then confirmed", async () => {
  const { rig, resident } = await running(asking({ replies: [500, "ok"] }), { permissionMs: 10_000 });
  await rig.seen("native_end");
  expect((await rig.calls("/reply")).map(({ body }) => body)).toEqual([{ reply: "once" }, { reply: "once" }]);
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed" }]);
  await resident.stop();
});

test("a reply that took effect and answered 500 is not repeated", async () => {
  const { rig, resident } = await running(asking({ replies: ["effect-then-500"] }));
  await rig.seen("native_end");
  expect(await rig.calls("/reply")).toHaveLength(1);
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed" }]);
  await resident.stop();
});

const UNRESOLVED: Array<[string, AskPlan, RegExp]> = [
  ["200, and still pending", { replies: ["lie"] }, /answered 200, and the request is still pending/],
  ["400 each time", { replies: [400] }, /answered 400, and the request is still pending/],
  ["500 each time", { replies: [500] }, /answered 500, and the request is still pending/],
  ["no answer", { replies: ["silent"] }, /no answer within .*still pending/],
];

test("P11: a reply that has no effect each time (P9: a 200 too) is unresolved, with endpoint and status and no secret", () =>
  together(UNRESOLVED, async (_what, ask, detail) => {
    const { rig, resident } = await running(asking(ask), { permissionMs: 4000 });
    const unresolved = await rig.seen("permission_unresolved");
    expect(unresolved.code).toBe("PERMISSION_UNRESOLVED");
    expect(unresolved.detail).toMatch(/POST \/permission\/:id\/reply/);
    expect(unresolved.detail).toMatch(detail);
    expect(rig.of("permission_closed")).toMatchObject([{ result: "unresolved" }]);
    const tries = (await rig.calls("/reply")).length;
    expect(tries).toBeGreaterThanOrEqual(2);
    expect(tries).toBeLessThanOrEqual(3);
    expect(unresolved.detail).not.toContain(await rig.password());
    // The runner aborts; the ghost that stays in the CLI's list is never answered.
    expect(await resident.abort()).toBe(true);
    resident.endTurn();
    expect(await rig.calls("/reply")).toHaveLength(tries);
    await resident.stop();
  }));

test("P10: the CLI forgets the request and its tool waits on: unresolved", async () => {
  const { rig, resident } = await running(asking({ replies: ["forget"] }));
  expect((await rig.seen("permission_unresolved")).detail).toMatch(
    /answered 404, and the tool is still at work/,
  );
  expect(await rig.calls("/reply")).toHaveLength(1);
  await resident.stop();
});

test("P12: what was pending before this turn is an earlier turn's ghost: it is never answered", async () => {
  const { rig, resident } = await running({
    turns: [steps({ tool: "bash", ask: { replies: ["lie"] } }), steps({ text: "next" })],
  });
  await rig.seen("permission_asked");
  await resident.abort();
  await rig.seen("native_end");
  resident.endTurn();
  const replies = (await rig.calls("/reply")).length;
  rig.observations.length = 0;
  await submit(resident);
  await rig.seen("native_end");
  expect(await rig.calls("/reply")).toHaveLength(replies);
  expect(rig.of("permission_asked")).toEqual([]);
  await resident.stop();
});

test("P14: a question that nobody answers is rejected by the CLI's own call, once, at its limit", async () => {
  const { rig, resident } = await running({ turns: [steps({ question: {} })] }, { questionMs: 200 });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  const [asked] = rig.of("question_asked");
  expect(asked?.question).toMatchObject({ session: resident.nativeId, items: [{ header: "Color" }] });
  const id = asked?.question.request;
  expect(rig.of("question_closed")).toMatchObject([{ request: id, reply: "rejected", by: "deadline" }]);
  await rig.command({
    emit: { type: "question.asked", properties: { id, sessionID: resident.nativeId, questions: [] } },
  });
  expect(await rig.calls("POST /question/")).toEqual([
    { method: "POST", path: `/question/${id}/reject`, body: {} },
  ]);
  expect(rig.of("permission_unresolved")).toEqual([]);
  await resident.stop();
});

test("P15: questions of root and child at once, answered in reverse order: each its own, and the text goes on", async () => {
  const { rig, resident } = await running({
    turns: [steps({ question: {} }, { task: [{ question: {} }, { text: "low" }] }, { text: "top" })],
  });
  const first = await rig.seen("question_asked");
  const { session, request } = first.question;
  // The child's is not asked yet, and another session's is never.
  expect(() => resident.answerQuestion("ses_other", request, [["red"]])).toThrow(unknown);
  resident.answerQuestion(session, request, [["red"]]);
  const second = await rig.seen("question_asked", ({ question }) => question.session !== session);
  expect(second.question.ancestry).toMatchObject([{ title: "explore" }, { session: resident.nativeId }]);
  resident.answerQuestion(second.question.session, second.question.request, [["blue"]]);
  await rig.seen("native_end");
  expect(() => resident.answerQuestion(session, request, [["red"]])).toThrow(closed);
  expect((await rig.calls("POST /question/")).map(({ body }) => body)).toEqual([
    { answers: [["red"]] },
    { answers: [["blue"]] },
  ]);
  expect(rig.of("question_closed")).toMatchObject([
    { reply: "answered", by: "user", result: "confirmed" },
    { reply: "answered", by: "user", result: "confirmed" },
  ]);
  expect(textOf(rig)).toBe("top");
  resident.endTurn();
  expect(() => resident.answerQuestion(session, request, [["red"]])).toThrow(unknown);
  await resident.stop();
});

const unknown = expect.objectContaining({ code: "REQUEST_UNKNOWN" });
const closed = expect.objectContaining({ code: "REQUEST_CLOSED" });

test("`ask`: the user's decision goes to the CLI once, and a second one is late", async () => {
  const { rig, resident } = await running(asking(), {}, { default: "ask" });
  const { request, action, deadlineAt } = await rig.seen("permission_asked");
  expect(action).toBe("ask");
  expect(deadlineAt).toBeGreaterThan(Date.now());
  expect(await rig.calls("/reply")).toEqual([]);
  resident.answerPermission(request.session, request.request, "reject");
  expect(() => resident.answerPermission(request.session, request.request, "once")).toThrow(closed);
  await rig.seen("native_end");
  expect((await rig.calls("/reply")).map(({ body }) => body)).toEqual([{ reply: "reject" }]);
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", by: "user", reply: "reject" }]);
  await resident.stop();
});

test("P12: requests that no event told are found in the lists, each answered once", async () => {
  const { rig, resident } = await running(
    {
      turns: [
        steps({ tool: "bash", ask: { silent: true } }, { text: "one" }),
        steps({ question: { silent: true } }),
      ],
    },
    { questionMs: 100 },
  );
  await rig.seen("native_end");
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "once" }]);
  expect(await rig.calls("/reply")).toHaveLength(1);
  resident.endTurn();
  rig.observations.length = 0;
  await submit(resident);
  await rig.seen("native_end");
  expect(rig.of("question_closed")).toMatchObject([{ result: "confirmed", reply: "rejected" }]);
  await resident.stop();
});

test("P19: a wait past its limit is reported with the provider's message; heartbeats do not extend it", async () => {
  const { rig, resident } = await running(
    {
      stream: { heartbeat: "data", beatMs: 20 },
      turns: [steps({ retry: "quota exceeded", inMs: 86_400_000, goesOn: false })],
    },
    { providerWaitMs: 250 },
  );
  expect(await rig.seen("provider_late")).toMatchObject({ reason: "quota exceeded" });
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted" });
  expect(rig.of("provider_late")).toHaveLength(1);
  await resident.stop();
});

test("P19: a retry a day ahead is told as waiting, with message and time; an abort in it ends the turn", async () => {
  const { rig, resident } = await running({
    turns: [steps({ retry: "quota exceeded", inMs: 86_400_000, goesOn: false })],
  });
  const waiting = await rig.seen("waiting");
  expect(waiting).toMatchObject({ reason: "quota exceeded", attempt: 1 });
  expect((waiting.nextAt ?? 0) - Date.now()).toBeGreaterThan(80_000_000);
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted", error: null });
  await resident.stop();
});

test("a retry takes back the text of the attempt that was cut", async () => {
  const { rig, resident } = await running({ turns: [steps({ cut: "partial" }, { text: "whole" })] });
  await rig.seen("native_end");
  expect(rig.of("withdrawn")).toHaveLength(1);
  expect(textOf(rig)).toBe("whole");
  await resident.stop();
});

test("an overflow that compaction cures is no failure, and its summary no answer", async () => {
  const { rig, resident } = await running({ turns: [steps({ overflow: true }, { text: "after" })] });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed", error: null });
  expect(textOf(rig)).toBe("after");
  expect(rig.of("end_overdue")).toEqual([]);
  await resident.stop();
});

test("a provider's refusal is a failed end with its name and message", async () => {
  const { rig, resident } = await running({ turns: [steps({ fail: "APIError", message: "fake 400" })] });
  expect(await rig.seen("native_end")).toMatchObject({
    status: "failed",
    error: { name: "APIError", message: "fake 400" },
  });
  await resident.stop();
});

test("a child that was made and never ran does not keep the turn open for ever", async () => {
  const { rig, resident } = await running({ turns: [steps({ task: [], idle: true }, { text: "top" })] });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  await resident.stop();
});

test("an abort of the root ends its children, and the turn once", async () => {
  const { rig, resident } = await running({ turns: [steps({ task: [{ running: "bash" }] })] });
  await rig.seen("tool", ({ session }) => session !== resident.nativeId);
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted" });
  expect(rig.of("native_end")).toHaveLength(1);
  await resident.stop();
});
