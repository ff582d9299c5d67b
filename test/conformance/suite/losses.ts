/** The connection to the CLI's server breaks in every way that a connection can, while the CLI itself goes on. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { RELAY } from "../server-relay.ts";
import { processesOf } from "./processes.ts";
import { type DriverSubject, type Stage, settled, spoken } from "./subject.ts";

/** @param requests file of the relay that stands before each CLI of this stage */
export function lossTests(stage: () => Stage, { server }: DriverSubject, requests: () => string): void {
  const ofServer = test.skipIf(server === null);
  const aborts = () => readFileSync(requests(), "utf8").match(/^POST \/session\/[^/]+\/abort/gm)?.length ?? 0;

  async function relayOf(member: string): Promise<number> {
    const [program] = await processesOf(stage().sandbox, member, RELAY);
    if (program === undefined) throw new Error("the relay does not run");
    return program.pid;
  }

  ofServer(
    "law 4, E3: a stream that is open and carries nothing fails the gate: nothing is sent, and the next turn is RESTORED",
    async () => {
      const { t, steady } = stage();
      const member = await settled(stage(), steady());
      await play(t, member, "The code word is kelp.");
      t.model.reset();
      process.kill(await relayOf(member), "SIGHUP");
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
      expect(spoken(stage(), t.model.mainRequests()[0]).slice(-2)).toEqual([
        "The code word is kelp.",
        "What is the code word?",
      ]);
    },
  );

  const ways: Array<[string, NodeJS.Signals]> = [
    ["law 5, E4: the event stream cut in a turn", "SIGUSR2"],
    ["P2: the event stream ended cleanly in a turn", "SIGTTOU"],
    ["P1: every connection half-open in a turn", "SIGWINCH"],
  ];
  for (const [what, signal] of ways) {
    ofServer(`${what} loses it, aborted once and never resubscribed; the next is RESTORED`, async () => {
      const { t, steady } = stage();
      const member = await settled(stage(), steady());
      const { settled_turns } = t.host.member(member);
      t.model.script("Talk on", [{ kind: "neverEnd", text: "talking " }]);
      const turn = follow(t.host.submit(member, "Talk on."));
      await until("some text", () => turn.seen().length > 20, 30_000);
      const before = aborts();
      process.kill(await relayOf(member), signal);
      const settlement = await turn.end();
      expect(settlement).toMatchObject({
        outcome: "stream_lost",
        settled: false,
        error: { code: "STREAM_LOST" },
        keepsProcess: false,
        textIsPartial: true,
      });
      expect(settlement.parts.join("")).toMatch(/^(talking )+/);
      const seen = settlement.evidence.map((piece) => piece.what);
      expect(seen.filter((each) => each === "subscription_lost")).toHaveLength(1);
      expect(aborts()).toBe(before + 1);
      await t.model.waitForRequest(({ ending }) => ending === "gone", 20_000);
      expect(t.model.mainRequests()).toHaveLength(1);
      expect(t.host.member(member).locator?.settledTurns).toBe(settled_turns);
      t.model.reset();
      const next = await play(t, member, "And on.");
      expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
      expect(spoken(stage(), t.model.mainRequests()[0]).slice(-2)).toEqual(["Talk on.", "And on."]);
    });
  }
}
