/** Provider trouble: a failure settles, a retry is told, and the conversation stays. */
import { expect, test } from "vitest";
import { follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { away } from "./limits.ts";
import { eventsOf } from "./processes.ts";
import { type DriverSubject, type Stage, settled, spoken } from "./subject.ts";

export function providerTests(
  stage: () => Stage,
  { tools, cutAnswer, outOfReach, keptChars, badRequestCalls, tellsNextTry, overflow }: DriverSubject,
): void {
  test("laws 6, 7; B1, C6: a provider's 400 fails the turn, settled; the process stays, and the history is kept", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    const { settled_turns } = t.host.member(member);
    t.model.script("Fail with 400", [
      { kind: "status", status: 400, body: { error: { message: "no such thing" } } },
    ]);
    const { settlement } = await play(t, member, "Fail with 400.");
    expect(settlement).toMatchObject({
      outcome: "failed",
      settled: true,
      context: "LIVE",
      keepsProcess: true,
      error: { code: "NATIVE_FAILED" },
    });
    expect(settlement.error?.message).not.toContain("127.0.0.1");
    expect(t.host.member(member)).toMatchObject({
      settled_turns: settled_turns + 1,
      locator: { settledTurns: settled_turns + 1, nativeId: settlement.session?.nativeId },
    });
    expect(t.model.mainRequests()).toHaveLength(badRequestCalls);
    t.model.reset();
    const next = await play(t, member, "After the failure.");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    expect(next.settlement.processGeneration).toBe(settlement.processGeneration);
    const sent = spoken(stage(), t.model.mainRequests()[0]);
    expect(sent.slice(-2)).toEqual(["Fail with 400.", "After the failure."]);
    expect(sent).toContain("Say something before the test begins.");
  });

  test("law 8: a login that the provider refuses fails the turn and is not LOST; the conversation is there when it is taken again", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    const { locator } = t.host.member(member);
    t.model.script("Knock", [{ kind: "status", status: 401, body: { error: { message: "who are you" } } }]);
    // Some of them knock again by themselves, for longer than a test may take.
    const { settlement } = await play(t, member, "Knock in vain.", 10_000);
    expect(settlement).toMatchObject({ outcome: "failed", context: "LIVE" });
    expect(["NATIVE_FAILED", "TURN_TIME_LIMIT"]).toContain(settlement.error?.code);
    expect(t.host.member(member).locator?.nativeId).toBe(locator?.nativeId);
    t.model.reset();
    const next = await play(t, member, "With a key.");
    expect(next.settlement.outcome).toBe("completed");
    expect(["LIVE", "RESTORED"]).toContain(next.settlement.context);
    expect(spoken(stage(), t.model.mainRequests()[0])).toContain("Say something before the test begins.");
  });

  test("C4: a 429 with retry-after is waited for, told as waiting, and the turn completes with the text once", async () => {
    const { t, steady } = stage();
    const failFirst = { times: 1, status: 429, headers: { "retry-after": "1" } };
    t.model.script("Too many", [{ kind: "reply", text: "At last.", failFirst }]);
    const turn = await play(t, steady(), "Too many requests?");
    expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["At last."] });
    expect(turn.seen()).toBe("At last.");
    expect(turn.all("turn.waiting").length).toBeGreaterThanOrEqual(1);
    expect(turn.all("turn.waiting")[0]).toMatchObject({
      attempt: 1,
      nextAt: tellsNextTry ? expect.any(Number) : null,
    });
    const sent = t.model.mainRequests().map((request) => spoken(stage(), request).at(-1));
    expect(sent).toEqual(["Too many requests?", "Too many requests?"]);
  });

  test("law 10: an answer that was cut and made again is told once, the cut attempt withdrawn; where it is not, it is told as partial", async () => {
    const { t, steady } = stage();
    t.model.script("Cut the line", [{ kind: "cut", text: "Half of the ans" }]);
    const turn = follow(t.host.submit(steady(), "Cut the line."));
    await t.model.waitForRequest(({ ending }) => ending === "cut", 30_000);
    t.model.reset();
    t.model.script("Cut the line", ["The whole answer."]);
    const settlement = await turn.end();
    if (cutAnswer === "again or failed" && settlement.outcome === "failed") {
      expect(settlement).toMatchObject({
        settled: true,
        error: { code: "NATIVE_FAILED" },
        parts: ["Half of the ans"],
        textIsPartial: true,
      });
      return;
    }
    expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["The whole answer."] });
    expect(turn.seen()).toBe("The whole answer.");
  });

  test("facts 4.1: a provider out of reach for a while is shown as waited for, tried again, and the turn completes", async () => {
    const { t, steady, directory } = stage();
    const member = await settled(stage(), steady());
    const waits = (turn: string) =>
      eventsOf(directory).filter((event) => event.type === "turn.waiting" && event.turn === turn);
    const id = await away(stage(), member, tools.shell, "come back", (turn) => waits(turn).length > 0);
    await until("the end", () => t.host.turn(id).settlement !== null, 60_000);
    expect(t.host.turn(id).settlement).toMatchObject({
      outcome: "completed",
      settled: true,
      parts: ["Here again."],
    });
    // Parked, nothing would ever try again: it is we who set the time of the next try.
    if (outOfReach === "parked") {
      expect(waits(id)).toContainEqual(expect.objectContaining({ attempt: 1, nextAt: expect.any(Number) }));
    }
  });

  test.skipIf(overflow === "never")(
    "law 8 and facts 4: an overflow is compacted by the CLI, in the turn or at the next one's beginning; it settles with the answer alone, and is resumed after",
    async () => {
      const own = stage().apart();
      const { t } = own;
      const member = await settled(own, own.fresh());
      if (keptChars > 0) await play(t, member, "Something long. ".repeat(keptChars / 10));
      t.model.script("Too long", [{ kind: "contextOverflow" }], { times: 1 });
      t.model.script("<conversation>", ["SUMMARY of it."], { purpose: "summary" });
      t.model.setDefault(["After the compaction."]);
      let turn = await play(t, member, "Too long a message.");
      if (overflow === "next turn") {
        expect(turn.settlement).toMatchObject({
          outcome: "failed",
          settled: true,
          error: { code: "NATIVE_FAILED" },
          keepsProcess: true,
        });
        turn = await play(t, member, "Then a shorter one.");
        expect(turn.settlement.context).toBe("LIVE");
      }
      expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true, error: null });
      expect(turn.settlement.parts).toEqual(["After the compaction."]);
      expect(t.model.requests().filter(({ purpose }) => purpose === "summary")).toHaveLength(1);
      expect(turn.settlement.session?.tail?.role).toBe("assistant");
      t.model.reset();
      await t.host.stopSandbox(own.sandbox);
      const next = await play(t, member, "Do you follow?");
      expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
      const of = { turn: next.handle.id };
      await until("the record of its call", () => t.host.usage(of).calls.calls > 0);
      // S26: the one break is the expected one, whatever the CLI asked for in between.
      const { prefixes } = t.host.usage({ member }).calls;
      expect(prefixes).toMatchObject({
        compaction: 1,
        history: 0,
        system: 0,
        tools: 0,
        parameters: 0,
        unknown: 0,
      });
      expect(t.host.store.calls.list(of, 1)[0]?.prefix?.verdict).toBe("equal");
    },
  );
}
