/** The CLI dies, or only its event stream does: what is lost is said, nothing stays behind, the conversation goes on. */
import { expect, test } from "vitest";
import { startTestHost } from "../../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { exitsOf, killCli, oneMoreExit, processesOf, slotIsEmpty } from "./processes.ts";
import { type DriverSubject, type Stage, settled } from "./subject.ts";

export function deathTests(
  stage: () => Stage,
  { manifest, member: options, tools, processText, cutter, dispose }: DriverSubject,
): void {
  test("laws 6, 8, C5: the CLI killed in a turn fails it unsettled, leaves no process, and the next turn is RESTORED", async () => {
    const { t, steady, sandbox } = stage();
    const member = await settled(stage(), steady());
    const { locator } = t.host.member(member);
    t.model.script("Work until", [{ kind: "reply", toolCalls: [tools.shell("sleep 322")] }, "Never."]);
    const turn = follow(t.host.submit(member, "Work until you die."));
    await until(
      "the sleep",
      async () => (await processesOf(sandbox, member, "sleep 322")).length > 0,
      30_000,
    );
    await killCli(sandbox, member, processText);
    const settlement = await turn.end();
    expect(settlement).toMatchObject({
      outcome: "failed",
      settled: false,
      error: { code: "CLI_EXITED" },
      keepsProcess: false,
    });
    await slotIsEmpty(sandbox, member);
    expect(t.host.member(member).locator).toEqual(locator);
    t.model.reset();
    const next = await play(t, member, "Do you live?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
    expect(next.settlement.session?.nativeId).toBe(locator?.nativeId);
    expect(userTexts(t.model.mainRequests()[0])).toContain("Say something before the test begins.");
  });

  test("law 8: the CLI killed between turns makes the next turn RESTORED, by the same native id", async () => {
    const { t, steady, sandbox } = stage();
    const member = await settled(stage(), steady());
    const { locator } = t.host.member(member);
    const { directory } = t.host.store.sandbox(sandbox) ?? { directory: "" };
    const before = exitsOf(directory, member);
    await killCli(sandbox, member, processText);
    await oneMoreExit(directory, member, before);
    const next = await play(t, member, "Still there?");
    expect(next.settlement).toMatchObject({ outcome: "completed", settled: true, context: "RESTORED" });
    expect(next.settlement.session?.nativeId).toBe(locator?.nativeId);
  });

  test.skipIf(dispose === null)(
    "law 5: the instance disposed of in a turn ends the turn for good, and the next one is taken with its history",
    async () => {
      const { t, steady, sandbox, workspace } = stage();
      const member = await settled(stage(), steady());
      t.model.script("Go on until", [{ kind: "neverEnd", text: "going " }]);
      const turn = follow(t.host.submit(member, "Go on until disposed of."));
      await until("some text", () => turn.seen().length > 20, 30_000);
      const [server] = await processesOf(sandbox, member, processText);
      await dispose?.(server?.pid ?? 0, workspace);
      const settlement = await turn.end();
      // The CLI itself aborts the turn first; which of the two is seen first is its own affair.
      expect(["aborted", "stream_lost"]).toContain(settlement.outcome);
      expect(settlement.settled).toBe(settlement.outcome === "aborted");
      t.model.reset();
      const next = await play(t, member, "Are you back?");
      expect(next.settlement).toMatchObject({ outcome: "completed", settled: true });
      expect(userTexts(t.model.mainRequests()[0])).toContain("Go on until disposed of.");
    },
  );

  test.skipIf(cutter === null)(
    "law 4, E3: a stream that is open and carries nothing fails the gate: nothing is sent, and the next turn is RESTORED",
    async () => {
      const { t, member, program } = await cut();
      t.model.reset();
      process.kill(program, "SIGHUP");
      const { settlement } = await play(t, member, "Blindly.");
      expect(settlement).toMatchObject({
        outcome: "not_sent",
        settled: false,
        context: "LIVE",
        error: { code: "GATE_FAILED" },
        keepsProcess: false,
      });
      expect(t.model.requests()).toEqual([]);
      const next = await play(t, member, "What is the code word?");
      expect(next.settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is kelp."] });
      expect(userTexts(t.model.mainRequests()[0])).toEqual([
        "The code word is kelp.",
        "What is the code word?",
      ]);
    },
  );

  test.skipIf(cutter === null)(
    "law 5, E4: the event stream cut in a turn loses it, aborted once and never resubscribed; the next is RESTORED",
    async () => {
      const { t, member, program } = await cut();
      t.model.script("Talk on", [{ kind: "neverEnd", text: "talking " }]);
      const turn = follow(t.host.submit(member, "Talk on."));
      await until("some text", () => turn.seen().length > 20, 30_000);
      process.kill(program, "SIGUSR2");
      const settlement = await turn.end();
      expect(settlement).toMatchObject({
        outcome: "stream_lost",
        settled: false,
        error: { code: "STREAM_LOST" },
        keepsProcess: false,
      });
      const what = settlement.evidence.map((piece) => piece.what);
      expect(what.filter((each) => each === "subscription_lost")).toHaveLength(1);
      await t.model.waitForRequest(({ ending }) => ending === "gone", 5000);
      expect(
        t.model.mainRequests().filter((request) => userTexts(request).includes("Talk on.")),
      ).toHaveLength(1);
      expect(t.host.member(member).locator?.settledTurns).toBe(1);
      t.model.reset();
      const next = await play(t, member, "What is the code word?");
      expect(next.settlement).toMatchObject({
        outcome: "completed",
        context: "RESTORED",
        parts: ["The code word is kelp."],
      });
    },
  );

  /** A host whose CLI is reached through the cutter, and a member of it with one settled turn. */
  async function cut() {
    const t = await startTestHost({
      commands: { [manifest.cli]: cutter ?? [] },
      limits: { canaryMs: 1500 },
    });
    tellOnFailure(t);
    const sandbox = t.host.createSandbox({ kind: "process" }).id;
    const member = t.host.createMember({ sandbox, cli: manifest.cli, ...options }).id;
    await play(t, member, "The code word is kelp.");
    const [program] = await processesOf(sandbox, member, "stream-cutter");
    if (program === undefined) throw new Error("the cutter does not run");
    return { t, member, program: program.pid };
  }
}
