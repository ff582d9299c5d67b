/** Ends that somebody asked for, or a limit: each settles by the CLI's own end, and the next turn is taken. */
import { expect, test } from "vitest";
import { listSlot } from "../../../bridge/census.ts";
import { follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { nativeServer } from "./native.ts";
import { slotOf } from "./processes.ts";
import { abortOf, type DriverSubject, type Stage, settled, spoken } from "./subject.ts";

export function abortTests(stage: () => Stage, subject: DriverSubject): void {
  const { tools } = subject;

  test("law 6: an answer that never ends is aborted, settled by the CLI's own end, and the process stays", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Never end", [{ kind: "neverEnd", text: "on and " }]);
    const turn = follow(t.host.submit(member, "Never end."));
    await until("some text", () => turn.seen().length > 20, 30_000);
    const settlement = await abortOf(turn);
    expect(settlement).toMatchObject({
      outcome: "aborted",
      settled: true,
      context: "LIVE",
      error: null,
      textIsPartial: true,
      keepsProcess: true,
    });
    expect(settlement.parts.join("")).toMatch(/^(on and )+/);
    await t.model.waitForRequest(({ ending }) => ending === "gone", 5000);
    expect(t.model.mainRequests()).toHaveLength(1);
    t.model.reset();
    const next = await play(t, member, "After the abort.");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    expect(spoken(stage(), t.model.mainRequests()[0]).slice(-2)).toEqual(["Never end.", "After the abort."]);
  });

  test("law 6: an abort while a tool runs ends the tool's processes, settles, and the process stays", async () => {
    const { t, steady, sandbox } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Sleep long", [{ kind: "reply", toolCalls: [tools.shell("sleep 321")] }, "Slept."]);
    const turn = follow(t.host.submit(member, "Sleep long."));
    const sleepers = async () =>
      (await listSlot(slotOf(sandbox, member))).filter(({ command }) => command === "sleep");
    await until("the sleep", async () => (await sleepers()).length > 0, 30_000);
    const settlement = await abortOf(turn);
    expect(settlement).toMatchObject({ outcome: "aborted", settled: true, error: null, keepsProcess: true });
    await until("no sleep", async () => (await sleepers()).length === 0, 5000);
    expect((await play(t, member, "Awake?")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
  });

  test("law 6: an abort in a wait for a retry settles as aborted and not as an empty success", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Wait for", [{ kind: "status", status: 429, headers: { "retry-after": "60" } }]);
    const turn = follow(t.host.submit(member, "Wait for the provider."));
    await turn.heard("turn.waiting");
    const settlement = await abortOf(turn);
    expect(settlement).toMatchObject({ outcome: "aborted", settled: true, parts: [] });
    t.model.reset();
    expect((await play(t, member, "Go on.")).settlement).toMatchObject({
      outcome: "completed",
      context: subject.retiresAfterRetry ? "RESTORED" : "LIVE",
    });
  });

  test("laws 3, 6: an abort right behind the submission, while the process starts, sends nothing", async () => {
    const { t, fresh } = stage();
    const member = fresh();
    const turn = follow(t.host.submit(member, "Too late already."));
    const settlement = await abortOf(turn);
    expect(settlement).toMatchObject({ outcome: "not_sent", settled: false });
    expect(t.model.requests()).toEqual([]);
    const next = await play(t, member, "Now really.");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "NEW" });
    expect(spoken(stage(), t.model.mainRequests()[0])).toEqual(["Now really."]);
  });

  test("laws 3, 6: an abort right behind a LIVE submission ends it once, sent or not, and the next turn is taken", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("At once", [{ kind: "hang" }]);
    const settlement = await abortOf(follow(t.host.submit(member, "At once.")));
    expect(["not_sent", "aborted"]).toContain(settlement.outcome);
    expect(settlement.settled).toBe(settlement.outcome === "aborted");
    const next = await play(t, member, "And on.");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    expect(spoken(stage(), t.model.mainRequests().at(-1)).filter((text) => text === "And on.")).toHaveLength(
      1,
    );
  });

  test.skipIf(subject.server === null)(
    "P17: two aborts make one end, and an abort of the idle session from elsewhere disturbs no later turn",
    async () => {
      const { t, steady, sandbox, workspace } = stage();
      const member = await settled(stage(), steady());
      const native = await nativeServer(subject, { sandbox, member, workspace });
      const { nativeId } = t.host.member(member).locator ?? {};
      t.model.script("Stop me twice", [{ kind: "neverEnd", text: "and so " }]);
      const turn = follow(t.host.submit(member, "Stop me twice."));
      await until("some text", () => turn.seen().length > 10, 30_000);
      const [, second] = await Promise.allSettled([turn.handle.abort(), turn.handle.abort()]);
      // The second may find the turn over.
      if (second?.status === "rejected") expect(second.reason).toMatchObject({ code: "ABORT_NO_TURN" });
      expect(await turn.end()).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
      t.model.reset();
      await native.ask("POST", `/session/${nativeId}/abort`, {});
      const next = await play(t, member, "Nobody stops me.");
      expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE", parts: ["All right."] });
    },
  );

  test("law 6: an abort after the end is refused and changes nothing", async () => {
    const { t, steady } = stage();
    const turn = await play(t, steady(), "Short.");
    const before = t.host.turn(turn.handle.id);
    await expect(turn.handle.abort()).rejects.toMatchObject({ code: "ABORT_NO_TURN" });
    expect(t.host.turn(turn.handle.id)).toEqual(before);
  });

  test("laws 6, 13: a turn over its time limit is aborted and fails, settled by the CLI's own end", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Take for ever", [{ kind: "neverEnd", text: "still " }]);
    const { settlement } = await play(t, member, "Take for ever.", 1500);
    expect(settlement).toMatchObject({
      outcome: "failed",
      settled: true,
      error: { code: "TURN_TIME_LIMIT" },
      keepsProcess: true,
    });
    t.model.reset();
    expect((await play(t, member, "In time.")).settlement).toMatchObject({
      context: "LIVE",
      outcome: "completed",
    });
  });

  test("g: a second submission while a turn runs is refused as busy; another member is not held up", async () => {
    const { t, steady, asked } = stage();
    const member = await settled(stage(), steady());
    const other = await settled(stage(), asked("allow"));
    t.model.script("Hold on", [{ kind: "neverEnd", text: "holding " }]);
    const turn = follow(t.host.submit(member, "Hold on."));
    await turn.heard("turn.delivered");
    expect(() => t.host.submit(member, "Me too.")).toThrow(expect.objectContaining({ code: "MEMBER_BUSY" }));
    expect((await play(t, other, "Meanwhile.")).settlement.outcome).toBe("completed");
    await abortOf(turn);
    expect(t.model.mainRequests().flatMap((request) => spoken(stage(), request))).not.toContain("Me too.");
  });

  test("rule 5: unknown ids are refused by their own codes", () => {
    const { t } = stage();
    expect(() => t.host.submit("m-nobody", "Hello?")).toThrow(
      expect.objectContaining({ code: "MEMBER_UNKNOWN" }),
    );
    expect(() => t.host.turn("turn-none")).toThrow(expect.objectContaining({ code: "TURN_UNKNOWN" }));
    expect(() =>
      t.host.createMember({
        sandbox: "sb-none",
        cli: stage().subject.manifest.cli,
        ...stage().subject.member,
      }),
    ).toThrow(expect.objectContaining({ code: "SANDBOX_UNKNOWN" }));
    expect(() => t.host.createSandbox({ kind: "process", id: "../up" })).toThrow(
      expect.objectContaining({ code: "REQUEST_INVALID" }),
    );
  });
}
