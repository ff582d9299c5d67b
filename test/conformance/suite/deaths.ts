/** The CLI dies, or only its event stream does: what is lost is said, nothing stays behind, the conversation goes on. */
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { nativeServer } from "./native.ts";
import { exitsOf, killCli, oneMoreExit, processesOf, slotIsEmpty } from "./processes.ts";
import { type DriverSubject, type Stage, settled, spoken } from "./subject.ts";

export function deathTests(stage: () => Stage, subject: DriverSubject): void {
  const { tools, processText, server } = subject;
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
    expect(spoken(stage(), t.model.mainRequests()[0])).toContain("Say something before the test begins.");
  });

  test("A3, law 8: the CLI killed in a first turn leaves no locator: the next turn is NEW in a session of its own, sent once", async () => {
    const { t, fresh, sandbox } = stage();
    const member = fresh();
    t.model.script("Work until", [{ kind: "reply", toolCalls: [tools.shell("sleep 323")] }, "Never."]);
    const turn = follow(t.host.submit(member, "Work until you die."));
    await until(
      "the sleep",
      async () => (await processesOf(sandbox, member, "sleep 323")).length > 0,
      30_000,
    );
    const candidate = (await turn.heard("turn.context")).nativeId;
    await killCli(sandbox, member, processText);
    expect(await turn.end()).toMatchObject({ outcome: "failed", settled: false, context: "NEW" });
    await slotIsEmpty(sandbox, member);
    expect(t.host.member(member)).toMatchObject({ locator: null, pending_locator: null, settled_turns: 0 });
    t.model.reset();
    const { settlement } = await play(t, member, "Do you live?");
    expect(settlement).toMatchObject({ outcome: "completed", context: "NEW" });
    expect(settlement.session?.nativeId).not.toBe(candidate);
    expect(spoken(stage(), t.model.mainRequests()[0])).toEqual(["Do you live?"]);
    expect(t.model.mainRequests()).toHaveLength(1);
    expect((await play(t, member, "And still?")).settlement).toMatchObject({ context: "LIVE" });
  });

  test("law 8: the CLI killed between turns makes the next turn RESTORED, by the same native id", async () => {
    const { t, steady, sandbox } = stage();
    const member = await settled(stage(), steady());
    const { locator } = t.host.member(member);
    const { directory } = t.host.store.sandbox(sandbox) ?? { directory: "" };
    const before = exitsOf(directory, member);
    if (subject.lateStore !== null && locator !== null) {
      const path = subject.lateStore(`${directory}/slots/${member}/home`, locator);
      const stored = () => existsSync(path) && readFileSync(path, "utf8").includes(locator.tail?.id ?? "");
      await until("the turn in the CLI's store", stored);
    }
    await killCli(sandbox, member, processText);
    await oneMoreExit(directory, member, before);
    const next = await play(t, member, "Still there?");
    expect(next.settlement).toMatchObject({ outcome: "completed", settled: true, context: "RESTORED" });
    expect(next.settlement.session?.nativeId).toBe(locator?.nativeId);
  });

  test.skipIf(server === null)(
    "law 5: the instance disposed of in a turn ends the turn for good, and the next one is taken with its history",
    async () => {
      const { t, steady, sandbox, workspace } = stage();
      const member = await settled(stage(), steady());
      t.model.script("Go on until", [{ kind: "neverEnd", text: "going " }]);
      const turn = follow(t.host.submit(member, "Go on until disposed of."));
      await until("some text", () => turn.seen().length > 20, 30_000);
      const native = await nativeServer(subject, { sandbox, member, workspace });
      await native.ask("POST", "/instance/dispose");
      const settlement = await turn.end();
      // The CLI itself aborts the turn first; which of the two is seen first is its own affair.
      expect(["aborted", "stream_lost"]).toContain(settlement.outcome);
      expect(settlement.settled).toBe(settlement.outcome === "aborted");
      t.model.reset();
      const next = await play(t, member, "Are you back?");
      expect(next.settlement).toMatchObject({ outcome: "completed", settled: true });
      expect(spoken(stage(), t.model.mainRequests()[0])).toContain("Go on until disposed of.");
    },
  );
}
