/** Turns with tools: the work is done, reported, and settled once. Usage as the CLI states it. */
import { expect, test } from "vitest";
import { play } from "../../support/turns.ts";
import { type DriverSubject, fileIn, STATED_USAGE, type Stage } from "./subject.ts";

export function toolTests(stage: () => Stage, { manifest, tools, usage }: DriverSubject): void {
  test("C4: a turn with a tool does its work in the workspace, tells of it, and settles after the last answer", async () => {
    const { t, steady } = stage();
    t.model.script("Make a file", [
      { kind: "reply", text: "I make it. ", toolCalls: [tools.shell("printf made > made-by-tool.txt")] },
      "It is made.",
    ]);
    const turn = await play(t, steady(), "Make a file.");
    expect(turn.settlement).toMatchObject({
      outcome: "completed",
      settled: true,
      parts: ["I make it. ", "It is made."],
    });
    expect(turn.seen()).toBe("I make it. It is made.");
    expect(fileIn(stage(), "made-by-tool.txt")).toBe("made");
    expect(turn.all("turn.tool").map(({ tool, status }) => `${tool} ${status}`)).toEqual([
      `${tools.shell("").name} running`,
      `${tools.shell("").name} completed`,
    ]);
    expect(t.model.mainRequests()).toHaveLength(2);
  });

  test("C4: two tools of one answer both run, and the turn settles once", async () => {
    const { t, steady } = stage();
    t.model.script("Make two", [
      { kind: "reply", toolCalls: [tools.shell("printf 1 > one.txt"), tools.shell("printf 2 > two.txt")] },
      "Both.",
    ]);
    const turn = await play(t, steady(), "Make two files.");
    expect(turn.settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Both."] });
    expect([fileIn(stage(), "one.txt"), fileIn(stage(), "two.txt")]).toEqual(["1", "2"]);
    const done = turn.all("turn.tool").filter(({ status }) => status === "completed");
    expect(new Set(done.map(({ call }) => call)).size).toBe(2);
    expect(t.model.mainRequests()).toHaveLength(2);
  });

  test("law 13: ids of tool calls are the provider's: none of them ends the bridge, and the turn goes its way", async () => {
    const { t, steady } = stage();
    for (const [at, id] of ["call 1", `call_${"x".repeat(300)}`, "call\u0001"].entries()) {
      t.model.script(`Call ${at}`, [
        { kind: "reply", toolCalls: [{ ...tools.shell("true"), id }] },
        "Called.",
      ]);
      const { settlement, all } = await play(t, steady(), `Call ${at}.`);
      expect(settlement).toMatchObject({ outcome: "completed", parts: ["Called."] });
      expect(all("turn.tool").map(({ status }) => status)).toEqual(["running", "completed"]);
    }
  });

  test.skipIf(!manifest.reportsUsage)(
    "law 11: usage is what the CLI says of what the model stated, summed over the turn's calls",
    async () => {
      const { t, steady } = stage();
      t.model.script("Count the tokens", [{ kind: "reply", text: "Counted.", usage: STATED_USAGE }]);
      const one = await play(t, steady(), "Count the tokens.");
      expect(one.settlement.usage).toEqual(usage);
      t.model.script("Count twice", [
        { kind: "reply", toolCalls: [tools.shell("true")], usage: STATED_USAGE },
        { kind: "reply", text: "Counted.", usage: STATED_USAGE },
      ]);
      const two = await play(t, steady(), "Count twice.");
      const twice = (count: number | null) => (count === null ? null : 2 * count);
      expect(two.settlement.usage).toEqual({
        source: "cli",
        inputTokens: twice(usage.inputTokens),
        outputTokens: twice(usage.outputTokens),
        reasoningTokens: twice(usage.reasoningTokens),
        cacheReadTokens: twice(usage.cacheReadTokens),
        cacheWriteTokens: twice(usage.cacheWriteTokens),
      });
    },
  );

  test.skipIf(!manifest.reportsUsage)(
    "law 11: a provider that states no usage gives no false zero",
    async () => {
      const { t, steady } = stage();
      t.model.script("Count nothing", [{ kind: "reply", text: "Uncounted.", usage: "absent" }]);
      const { settlement } = await play(t, steady(), "Count nothing.");
      expect(settlement.outcome).toBe("completed");
      expect(settlement.usage).toMatchObject({ inputTokens: null, outputTokens: null });
    },
  );
}
