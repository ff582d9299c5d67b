/** Law 9 around the requests themselves: several at once, late and strange answers, a controller's restart, ghosts. */
import { expect, test } from "vitest";
import type { PermissionRequest } from "../../../protocol/permission.ts";
import { type Followed, follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { nativeServer } from "./native.ts";
import { abortOf, type DriverSubject, fileIn, required, type Stage } from "./subject.ts";

/** What a server lists as pending. */
type Pending = Array<{ id: string; sessionID: string }>;

export function requestTests(stage: () => Stage, subject: DriverSubject): void {
  const { manifest, tools, server } = subject;
  const asks = test.skipIf(!manifest.asksPermission);
  const asksAtOnce = test.skipIf(!manifest.asksPermission || !subject.asksAtOnce);
  const asksOfServer = test.skipIf(!manifest.asksPermission || server === null);
  const asksQuestions = test.skipIf(!manifest.asksQuestions || tools.question === null);

  /** A turn of a member whose user is asked, waiting for so many answers. */
  async function waiting(text: string, commands: string[]) {
    const { t, asked } = stage();
    const member = asked("ask");
    t.model.script(text, [
      { kind: "reply", toolCalls: commands.map((each) => tools.shell(each)) },
      "Done it.",
    ]);
    const turn = follow(t.host.submit(member, `${text}.`));
    await until(
      `${commands.length} requests`,
      () => turn.all("turn.permission_asked").length === commands.length,
      30_000,
    );
    return { t, member, turn, requests: turn.all("turn.permission_asked").map(({ request }) => request) };
  }

  const answer = (turn: Followed, { session, request }: PermissionRequest, reply: "once" | "reject") =>
    stage().t.host.answerPermission({ turn: turn.handle.id, session, request, reply });

  asksAtOnce("law 9: two requests at once are two, and each gets its own answer, in any order", async () => {
    const { t, member, turn, requests } = await waiting("Ask two", [
      "printf 1 > two-1.txt",
      "printf 2 > two-2.txt",
    ]);
    expect(t.host.openRequests(member)).toHaveLength(2);
    const [first, second] = requests;
    await answer(turn, required(second ?? null), "once");
    await turn.heard("turn.permission_closed", ({ request }) => request === second?.request);
    expect(t.host.openRequests(member)).toHaveLength(1);
    const written = (request: PermissionRequest | undefined) =>
      fileIn(stage(), `two-${/two-(\d)/.exec(request?.patterns.join() ?? "")?.[1]}.txt`);
    expect(written(first)).toBeNull();
    await answer(turn, required(first ?? null), "once");
    expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Done it."] });
    expect([written(first), written(second)].sort()).toEqual(["1", "2"]);
    expect(turn.all("turn.permission_closed").map(({ by, result }) => `${by} ${result}`)).toEqual([
      "user confirmed",
      "user confirmed",
    ]);
  });

  asksAtOnce(
    "law 9: of two requests one is rejected: none stays open, and no tool has run that was not allowed",
    async () => {
      const { t, member, turn, requests } = await waiting("Refuse one", [
        "printf 1 > no-1.txt",
        "printf 2 > no-2.txt",
      ]);
      await answer(turn, required(requests[0] ?? null), "reject");
      if (!subject.rejectsAll) await answer(turn, required(requests[1] ?? null), "reject");
      expect(await turn.end()).toMatchObject({ settled: true });
      expect(turn.all("turn.permission_closed")).toHaveLength(2);
      expect(t.host.openRequests(member)).toEqual([]);
      expect([fileIn(stage(), "no-1.txt"), fileIn(stage(), "no-2.txt")]).toEqual([null, null]);
    },
  );

  asks(
    "law 9: answers to strangers' and to closed requests are refused by their codes, and change nothing",
    async () => {
      const { t, turn, requests } = await waiting("Ask once", ["printf x >> once.txt"]);
      const asked = required(requests[0] ?? null);
      const other = stage().steady();
      const { settlement } = await play(t, other, "Somebody else's turn.");
      expect(settlement.outcome).toBe("completed");
      const foreign = t.host.store.turnsOf(other, 1)[0]?.id ?? "";
      const cases: Array<[string, Parameters<typeof t.host.answerPermission>[0]]> = [
        ["TURN_UNKNOWN", { ...asked, turn: "turn-of-nobody", reply: "once" }],
        ["ABORT_NO_TURN", { ...asked, turn: foreign, reply: "once" }],
        ["REQUEST_UNKNOWN", { ...asked, turn: turn.handle.id, request: "per_of_nobody", reply: "once" }],
        ["REQUEST_UNKNOWN", { ...asked, turn: turn.handle.id, session: "ses_of_nobody", reply: "once" }],
      ];
      for (const [code, { turn: id, session, request, reply }] of cases) {
        const refused = t.host.answerPermission({ turn: id, session, request, reply });
        await expect(refused, code).rejects.toMatchObject({ code });
      }
      expect(turn.all("turn.permission_closed")).toEqual([]);
      await answer(turn, asked, "once");
      expect(await turn.end()).toMatchObject({ outcome: "completed" });
      await expect(answer(turn, asked, "once")).rejects.toMatchObject({ code: "ABORT_NO_TURN" });
      expect(fileIn(stage(), "once.txt")).toBe("x");
    },
  );

  asks("law 9, P12: requests are listed after the controller's restart, and answered then", async () => {
    const { t, member, turn, requests } = await waiting("Ask and wait", ["printf r > restart.txt"]);
    await t.reopen();
    expect(t.host.openRequests(member)).toMatchObject([
      { type: "turn.permission_asked", request: requests[0] },
    ]);
    const taken = follow(required(t.host.running(turn.handle.id)));
    await answer(taken, required(requests[0] ?? null), "once");
    expect(await taken.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Done it."] });
    expect(fileIn(stage(), "restart.txt")).toBe("r");
    expect(t.host.openRequests(member)).toEqual([]);
  });

  asksQuestions(
    "E2, P12: a question is listed after the controller's restart, and answered then",
    async () => {
      const { t, steady } = stage();
      const member = steady();
      t.model.script("Ask and stay", [{ kind: "reply", toolCalls: [required(tools.question)()] }, "I see."]);
      const turn = follow(t.host.submit(member, "Ask and stay."));
      const { question } = await turn.heard("turn.question_asked");
      await t.reopen();
      expect(t.host.openRequests(member)).toMatchObject([{ type: "turn.question_asked", question }]);
      const taken = follow(required(t.host.running(turn.handle.id)));
      const { session, request } = question;
      await t.host.answerQuestion({ turn: turn.handle.id, session, request, answers: [["blue"]] });
      expect(await taken.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["I see."] });
    },
  );

  asksOfServer(
    "law 9, P17: a request that an abort left pending is never answered and disturbs no later turn",
    async () => {
      const { t, member, turn, requests } = await waiting("Ask and be aborted", ["printf g > ghost.txt"]);
      const ghost = required(requests[0] ?? null);
      const native = await nativeServer(subject, { ...stage(), member });
      const isListed = async () =>
        (await native.ask<Pending>("GET", "/permission")).some(({ id }) => id === ghost.request);
      expect(await isListed()).toBe(true);
      expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
      expect(turn.all("turn.permission_closed")).toEqual([
        expect.objectContaining({ request: ghost.request, result: "closed_by_end", reply: null, by: null }),
      ]);
      await expect(answer(turn, ghost, "once")).rejects.toMatchObject({ code: "ABORT_NO_TURN" });
      const wasListed = await isListed();
      t.model.reset();
      const next = await play(t, member, "After the ghost.");
      expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
      expect([...next.all("turn.permission_asked"), ...next.all("turn.permission_closed")]).toEqual([]);
      // It would have left the list with an answer: it still takes one.
      expect(await isListed()).toBe(wasListed);
      expect(fileIn(stage(), "ghost.txt")).toBeNull();
    },
  );

  asksOfServer(
    "E5, P7, P12: another session of the same server moves no turn of ours, and its request gets no reply",
    async () => {
      const { t, asked, sandbox, workspace } = stage();
      const member = asked("allow");
      await play(t, member, "Before the stranger.");
      const native = await nativeServer(subject, { sandbox, member, workspace });
      t.model.script("Stranger, ask", [
        { kind: "reply", toolCalls: [tools.shell("printf s > stranger.txt")] },
      ]);
      t.model.script("Stranger, fail", [{ kind: "status", status: 400 }]);
      t.model.script("Go your way", [{ kind: "reply", text: ["My ", "own ", "way."], betweenChunksMs: 700 }]);
      const prompt = async (text: string) => {
        const { id } = await native.ask<{ id: string }>("POST", "/session", { title: "a stranger" });
        await native.ask("POST", `/session/${id}/prompt_async`, { parts: [{ type: "text", text }] });
        return id;
      };
      const asking = await prompt("Stranger, ask.");
      const pendingOf = async () =>
        (await native.ask<Pending>("GET", "/permission")).filter(({ sessionID }) => sessionID === asking);
      await until("the stranger's request", async () => (await pendingOf()).length === 1, 20_000);
      const turn = follow(t.host.submit(member, "Go your way."));
      await until("some text", () => turn.seen().includes("My"), 30_000);
      await prompt("Stranger, fail.");
      await t.model.waitForRequest(
        ({ request }) => (request?.rows.at(-1)?.text ?? "").includes("fail"),
        20_000,
      );
      await native.ask("POST", "/session/ses_ffffffffffffffffffffffffff/abort", {});
      expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["My own way."] });
      expect(turn.all("turn.permission_asked")).toEqual([]);
      expect(await pendingOf()).toHaveLength(1);
      expect(fileIn(stage(), "stranger.txt")).toBeNull();
      await native.ask("POST", `/session/${asking}/abort`, {});
    },
  );
}
