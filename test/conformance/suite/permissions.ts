/** Law 9: every request of the root gets one effective reply. */
import { expect, test } from "vitest";
import { ALLOW_ALL } from "../../../protocol/permission-policy.ts";
import { follow, play } from "../../support/turns.ts";
import { type DriverSubject, fileIn, type Stage } from "./subject.ts";

export function permissionTests(stage: () => Stage, subject: DriverSubject): void {
  const { manifest, tools, rejected } = subject;
  const asks = test.skipIf(!manifest.asksPermission);

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

  asks("law 9: a rule for a command is heard wherever it stands in a shell line", async () => {
    const { t, fresh } = stage();
    const tool = tools.shell("").name;
    const member = fresh({
      permissions: { ...ALLOW_ALL, rules: [{ tool, pattern: "touch *", action: "deny" }] },
    });
    for (const [at, line] of [
      "cd . && touch compound.txt",
      "true\ntouch compound.txt",
      "echo $(touch compound.txt)",
    ].entries()) {
      t.model.script(`Line ${at}`, [{ kind: "reply", toolCalls: [tools.shell(line)] }, "Went on."]);
      const turn = await play(t, member, `Line ${at}.`);
      expect(turn.all("turn.permission_asked").map(({ action }) => action)).toEqual(["deny"]);
      expect(fileIn(stage(), "compound.txt"), line).toBeNull();
    }
    t.model.script("Other line", [
      { kind: "reply", toolCalls: [tools.shell("cd . && printf 1 > other.txt")] },
      "Ran.",
    ]);
    expect((await play(t, member, "Other line.")).settlement.outcome).toBe("completed");
    expect(fileIn(stage(), "other.txt")).toBe("1");
  });

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
}
