/** What may work on behind a turn: nothing by default; where a member allows it, it is nobody's turn, and none is mixed with it. */
import { expect, test } from "vitest";
import { follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { eventsOf } from "./processes.ts";
import { type DriverSubject, fileIn, required, type Stage, spoken } from "./subject.ts";

export function backgroundTests(stage: () => Stage, subject: DriverSubject): void {
  const { tools, backgroundTools } = subject;
  const delegates = test.skipIf(tools.task === null);

  const unrequested = (member: string) =>
    eventsOf(stage().directory).flatMap((event) =>
      event.type === "member.unrequested" && event.member === member ? [event] : [],
    );

  test.skipIf(backgroundTools.length === 0)(
    "law 15: tools that work on behind their turn are not offered, and do nothing when they are called all the same",
    async () => {
      const { t, steady } = stage();
      const member = steady();
      const before = unrequested(member).length;
      t.model.script("Wake up later", [
        {
          kind: "reply",
          toolCalls: backgroundTools.map((name) => ({
            name,
            arguments: {
              command: "printf b > behind.txt",
              delay_seconds: 1,
              prompt: "Wake.",
              action: "start",
            },
          })),
        },
        "It can't be done.",
      ]);
      const turn = await play(t, member, "Wake up later.");
      expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["It can't be done."] });
      const offered = t.model.mainRequests()[0]?.request?.tools ?? [];
      expect(offered.filter((name) => backgroundTools.includes(name))).toEqual([]);
      expect(fileIn(stage(), "behind.txt")).toBeNull();
      expect(unrequested(member)).toHaveLength(before);
    },
  );

  delegates("law 15: a Task child is not let work on behind its turn by default", async () => {
    const { t, steady } = stage();
    const member = steady();
    const before = unrequested(member).length;
    t.model.script("Delegate behind", [
      { kind: "reply", toolCalls: [required(tools.task)("The child works behind.", { background: true })] },
      "Refused.",
    ]);
    const turn = await play(t, member, "Delegate behind.");
    expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Refused."] });
    const last = t.model
      .mainRequests()
      .findLast(({ agent }) => agent === null)
      ?.request?.rows.findLast(({ role }) => role === "tool");
    expect(last?.text).not.toContain('state="running"');
    expect(unrequested(member)).toHaveLength(before);
  });

  delegates(
    "laws 6, 9: a Task child that may work on ends in its turn or behind it; what the CLI makes of it then is unrequested, and the next turn is its own",
    async () => {
      const { t, fresh } = stage();
      const member = fresh({ background: true });
      t.model.script("Delegate and go on", [
        {
          kind: "reply",
          toolCalls: [required(tools.task)("The child takes its time.", { background: true })],
        },
        "Gone on.",
      ]);
      t.model.script("The child takes its time", [
        { kind: "reply", text: ["Slow ", "child."], betweenChunksMs: 1500 },
      ]);
      // What the CLI itself posts into the root when the child has ended.
      t.model.script(/<task |SYSTEM NOTIFICATION/, [
        { kind: "reply", text: ["Nobody ", "asked."], betweenChunksMs: 1500 },
      ]);
      const turn = await play(t, member, "Delegate and go on.");
      expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true });
      expect(turn.settlement.parts[0]).toBe("Gone on.");
      const root = turn.settlement.session?.nativeId;
      const own = follow(t.host.submit(member, "Now my own."));
      const settlement = await own.end();
      if (settlement.outcome !== "completed") {
        expect(settlement).toMatchObject({ outcome: "not_sent", error: { code: "GATE_FAILED" } });
      } else {
        // Never steered into the work that nobody asked for: its answer is its own.
        expect(settlement.parts).toEqual(["All right."]);
        const sent = t.model.mainRequests().filter((each) => spoken(stage(), each).at(-1) === "Now my own.");
        expect(sent).toHaveLength(1);
      }
      const texts = turn.settlement.parts.concat(settlement.parts).join("");
      if (!texts.includes("Nobody asked.")) {
        await until("the unrequested work", () =>
          unrequested(member).some(({ session }) => (session === root) === subject.wakesRoot),
        );
      }
    },
  );
}
