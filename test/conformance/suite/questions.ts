/** Questions of the CLI: delivered with their origin, answered or rejected once, and never what a turn hangs on. */
import { expect, test } from "vitest";
import { follow, play } from "../../support/turns.ts";
import { type DriverSubject, NESTING_AGENT, required, type Stage, spoken } from "./subject.ts";

export function questionTests(stage: () => Stage, subject: DriverSubject): void {
  const { manifest, tools } = subject;
  const asksQuestions = test.skipIf(!manifest.asksQuestions || tools.question === null);
  const asksOfTask = test.skipIf(!manifest.asksQuestions || tools.question === null || tools.task === null);

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
    expect(turn.all("turn.tool").at(-1)).toMatchObject({ status: subject.rejectedQuestion });
    t.model.reset();
    const next = await play(t, steady(), "And now?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    expect(spoken(stage(), t.model.mainRequests()[0])).toContain("Ask again.");
  });

  asksOfTask(
    "E2, law 9: a Task child's question is delivered with its ancestry and answered; or, where children may not ask, fails at once",
    async () => {
      const { t, asked } = stage();
      t.model.script("Delegate the asking", [
        {
          kind: "reply",
          toolCalls: [required(tools.task)("The child asks its user.", { subagent_type: NESTING_AGENT })],
        },
        ...(tools.taskEnd === null ? [] : [{ kind: "reply" as const, toolCalls: [tools.taskEnd()] }]),
        "Delegated.",
      ]);
      t.model.script("The child asks its user", [
        { kind: "reply", toolCalls: [required(tools.question)()] },
        "The child has it.",
      ]);
      const turn = follow(t.host.submit(asked("allow"), "Delegate the asking."));
      if (subject.childrenAsk !== true) {
        expect(await turn.end()).toMatchObject({ outcome: "completed", parts: ["Delegated."] });
        expect(turn.all("turn.question_asked")).toEqual([]);
        const { name } = required(tools.question)();
        const calls = turn.all("turn.tool").filter(({ tool }) => tool === name);
        if (subject.childrenAsk === "unseen") expect(calls).toEqual([]);
        else expect(calls).toContainEqual(expect.objectContaining({ status: "failed" }));
        return;
      }
      const { question } = await turn.heard("turn.question_asked");
      const { session, request, ancestry } = question;
      await t.host.answerQuestion({ turn: turn.handle.id, session, request, answers: [["blue"]] });
      const settlement = await turn.end();
      expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Delegated."] });
      expect(ancestry.map((each) => each.session)).toEqual([session, settlement.session?.nativeId]);
      expect(session).not.toBe(settlement.session?.nativeId);
      expect(turn.all("turn.question_closed")).toEqual([
        expect.objectContaining({ session, request, reply: "answered", result: "confirmed", by: "user" }),
      ]);
      const rows = t.model.mainRequests().flatMap((each) => each.request?.rows ?? []);
      expect(rows.filter(({ role, text }) => role === "tool" && text.includes("blue"))).not.toEqual([]);
    },
  );
}
