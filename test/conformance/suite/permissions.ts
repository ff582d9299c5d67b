/** Law 9: every request of the root and of its Task children gets one effective reply; questions don't hang a turn. */
import { expect, test } from "vitest";
import { play, userTexts } from "../../support/turns.ts";
import { type DriverSubject, fileIn, type Stage } from "./subject.ts";

export function permissionTests(stage: () => Stage, subject: DriverSubject): void {
  const { manifest, tools, rejected } = subject;
  const asks = test.skipIf(!manifest.asksPermission);
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

  test.skipIf(tools.question === null || manifest.asksQuestions)(
    "laws 9, 15: a question, which has no way to the user yet, is rejected, said, and the turn settles",
    async () => {
      const { t, steady } = stage();
      t.model.script("Ask me", [{ kind: "reply", toolCalls: [required(tools.question)()] }, "Never said."]);
      const turn = await play(t, steady(), "Ask me something.");
      expect(turn.settlement).toMatchObject({ settled: true, error: { code: "QUESTION_UNSUPPORTED" } });
      expect(turn.settlement.evidence.map(({ what }) => what)).toContain("question_rejected");
      expect(turn.all("turn.tool").at(-1)).toMatchObject({ status: "failed" });
      t.model.reset();
      const next = await play(t, steady(), "And now?");
      expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
      expect(userTexts(t.model.mainRequests()[0])).toContain("Ask me something.");
    },
  );
}

function required<T>(tool: T | null): T {
  if (tool === null) throw new TypeError("this test needs the tool");
  return tool;
}
