/** Law 9: every request of the root and of its Task children gets one effective reply; questions don't hang a turn. */
import { expect, test } from "vitest";
import { follow, play, userTexts } from "../../support/turns.ts";
import { type DriverSubject, fileIn, type Stage } from "./subject.ts";

export function permissionTests(stage: () => Stage, subject: DriverSubject): void {
  const { manifest, tools, rejected } = subject;
  const asks = test.skipIf(!manifest.asksPermission);
  const asksQuestions = test.skipIf(!manifest.asksQuestions || tools.question === null);
  const asksOfTask = test.skipIf(!manifest.asksPermission || tools.task === null);

  asks("law 9, E5: the root's request is allowed once, seen to take effect, and the tool runs", async () => {
    const { t, asked } = stage();
    t.model.script("May I", [
      { kind: "reply", toolCalls: [tools.shell("printf yes > allowed.txt")] },
      "Ran.",
    ]);
    const turn = await play(t, asked("allow"), "May I run it?");
    expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Ran."] });
    const { nativeId } = turn.settlement.session ?? {};
    const requests = turn.all("turn.permission_asked");
    expect(requests).toHaveLength(1);
    expect(requests[0]?.request.session).toBe(nativeId);
    expect(turn.all("turn.permission_closed")).toEqual([
      expect.objectContaining({
        request: requests[0]?.request.request,
        session: nativeId,
        reply: "once",
        result: "confirmed",
      }),
    ]);
    expect(fileIn(stage(), "allowed.txt")).toBe("yes");
  });

  asks("law 9: what was allowed once is asked again the next time", async () => {
    const { t, asked } = stage();
    const call = tools.shell("printf x >> twice.txt");
    t.model.script("Twice", [
      { kind: "reply", toolCalls: [call] },
      { kind: "reply", toolCalls: [call] },
      "Twice.",
    ]);
    const turn = await play(t, asked("allow"), "Twice, please.");
    expect(turn.settlement.outcome).toBe("completed");
    expect(turn.all("turn.permission_closed").map(({ reply, result }) => `${reply} ${result}`)).toEqual([
      "once confirmed",
      "once confirmed",
    ]);
    expect(fileIn(stage(), "twice.txt")).toBe("xx");
  });

  asks("law 9: the root's request is rejected, the tool does not run, and the turn settles", async () => {
    const { t, asked } = stage();
    t.model.script("Let me", [
      { kind: "reply", toolCalls: [tools.shell("printf no > denied.txt")] },
      "Went on.",
    ]);
    const turn = await play(t, asked("deny"), "Let me run it.");
    expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true });
    expect(turn.all("turn.permission_closed").map(({ reply, result }) => `${reply} ${result}`)).toEqual([
      "reject confirmed",
    ]);
    expect(turn.all("turn.tool").at(-1)).toMatchObject({ status: "failed" });
    expect(fileIn(stage(), "denied.txt")).toBeNull();
    expect(t.model.mainRequests()).toHaveLength(rejected.modelCalls);
    t.model.reset();
    const after = await play(t, asked("deny"), "Are you still there?");
    expect(after.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
  });

  asksOfTask(
    "law 9, E5, C7: a Task child's request is allowed, and the child's text is not the answer",
    async () => {
      const { t, asked } = stage();
      t.model.script("Delegate it", [
        { kind: "reply", toolCalls: [required(tools.task)("The child writes a file.")] },
        "The child is done.",
      ]);
      t.model.script("The child writes", [
        { kind: "reply", text: "Child text. ", toolCalls: [tools.shell("printf c > child.txt")] },
        "Child's end.",
      ]);
      const turn = await play(t, asked("allow"), "Delegate it.");
      expect(turn.settlement).toMatchObject({
        outcome: "completed",
        settled: true,
        parts: ["The child is done."],
      });
      expect(turn.seen()).toBe("The child is done.");
      const child = turn
        .all("turn.permission_asked")
        .find(({ request }) => request.permission !== "task")?.request;
      expect(child?.session).toBeDefined();
      expect(child?.session).not.toBe(turn.settlement.session?.nativeId);
      expect(turn.all("turn.permission_closed")).toContainEqual(
        expect.objectContaining({ session: child?.session, reply: "once", result: "confirmed" }),
      );
      expect(fileIn(stage(), "child.txt")).toBe("c");
      expect(turn.settlement.session?.nativeId).toBe(t.host.member(asked("allow")).locator?.nativeId);
    },
  );

  asksOfTask(
    "law 9: a Task child's request is rejected, its tool does not run, and the root's turn settles",
    async () => {
      const { t, asked } = stage();
      t.model.script("Try to delegate", [
        { kind: "reply", toolCalls: [required(tools.task)("The child tries to write.")] },
        "The child could not.",
      ]);
      t.model.script("The child tries", [
        { kind: "reply", toolCalls: [tools.shell("printf c > child-denied.txt")] },
        "Child's end.",
      ]);
      const turn = await play(t, asked("deny"), "Try to delegate it.");
      expect(turn.settlement.settled).toBe(true);
      expect(turn.all("turn.permission_closed").map(({ reply, result }) => `${reply} ${result}`)).toEqual([
        "reject confirmed",
      ]);
      expect(fileIn(stage(), "child-denied.txt")).toBeNull();
    },
  );

  asks(
    "law 9: a request that the policy leaves to the user waits for the answer, which is given once",
    async () => {
      const { t, asked } = stage();
      t.model.script("Shall I", [
        { kind: "reply", toolCalls: [tools.shell("printf u > by-user.txt")] },
        "Ran.",
      ]);
      const member = asked("ask");
      const turn = follow(t.host.submit(member, "Shall I run it?"));
      const { request } = await turn.heard("turn.permission_asked");
      expect(t.host.openRequests(member)).toHaveLength(1);
      const answer = {
        turn: turn.handle.id,
        session: request.session,
        request: request.request,
        reply: "once",
      } as const;
      await expect(t.host.answerPermission({ ...answer, request: "per_of_nobody" })).rejects.toMatchObject({
        code: "REQUEST_UNKNOWN",
      });
      expect(fileIn(stage(), "by-user.txt")).toBeNull();
      await t.host.answerPermission(answer);
      await expect(t.host.answerPermission(answer)).rejects.toMatchObject({
        code: expect.stringMatching(/^(REQUEST_CLOSED|ABORT_NO_TURN)$/),
      });
      expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Ran."] });
      expect(turn.all("turn.permission_closed")).toEqual([
        expect.objectContaining({ reply: "once", result: "confirmed", by: "user" }),
      ]);
      expect(fileIn(stage(), "by-user.txt")).toBe("u");
      expect(t.host.openRequests(member)).toEqual([]);
    },
  );

  asksQuestions(
    "E2: a question is delivered with its id, the answer goes back to it, once, and the model gets it",
    async () => {
      const { t, steady } = stage();
      t.model.script("Ask me", [{ kind: "reply", toolCalls: [required(tools.question)()] }, "As you say."]);
      const member = steady();
      const turn = follow(t.host.submit(member, "Ask me something."));
      const { question } = await turn.heard("turn.question_asked");
      expect(question.items).toMatchObject([
        { question: "Which colour?", options: [{ label: "blue" }, { label: "green" }] },
      ]);
      const answer = {
        turn: turn.handle.id,
        session: question.session,
        request: question.request,
        answers: [["green"]],
      };
      await expect(t.host.answerQuestion({ ...answer, answers: [] })).rejects.toMatchObject({
        code: "REQUEST_INVALID",
      });
      await expect(t.host.answerQuestion({ ...answer, session: "ses_of_nobody" })).rejects.toMatchObject({
        code: "REQUEST_UNKNOWN",
      });
      await t.host.answerQuestion(answer);
      await expect(t.host.answerQuestion(answer)).rejects.toMatchObject({
        code: expect.stringMatching(/^(REQUEST_CLOSED|ABORT_NO_TURN)$/),
      });
      expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["As you say."] });
      expect(turn.all("turn.question_closed")).toEqual([
        expect.objectContaining({
          request: question.request,
          reply: "answered",
          result: "confirmed",
          by: "user",
        }),
      ]);
      const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
      expect(rows.findLast(({ role }) => role === "tool")?.text).toContain("green");
    },
  );

  asksQuestions("law 9: a question that the user rejects ends its tool, and the turn settles", async () => {
    const { t, steady } = stage();
    t.model.script("Ask again", [{ kind: "reply", toolCalls: [required(tools.question)()] }, "Never mind."]);
    const turn = follow(t.host.submit(steady(), "Ask again."));
    const { question } = await turn.heard("turn.question_asked");
    const { session, request } = question;
    await t.host.answerQuestion({ turn: turn.handle.id, session, request, answers: null });
    expect(await turn.end()).toMatchObject({ settled: true });
    expect(turn.all("turn.question_closed").map(({ reply, by }) => `${reply} ${by}`)).toEqual([
      "rejected user",
    ]);
    expect(turn.all("turn.tool").at(-1)).toMatchObject({ status: "failed" });
    t.model.reset();
    const next = await play(t, steady(), "And now?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    expect(userTexts(t.model.mainRequests()[0])).toContain("Ask again.");
  });
}

function required<T>(tool: T | null): T {
  if (tool === null) throw new TypeError("this test needs the tool");
  return tool;
}
