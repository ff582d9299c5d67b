/** What is said of a chain's prefixes: over real requests to the loopback model, each break by its class, and none unseen. */
import { expect, test } from "vitest";
import { ask, assistant, startForTest, user } from "../model/client.ts";
import { type Message, WIRES, type Wire } from "../model/wires.ts";
import { type ChainReport, reportOn } from "../support/history/prefix.ts";

type Said = { messages: readonly Message[]; system?: string; tools?: boolean; session?: string };

async function reported(wire: Wire, said: readonly Said[]): Promise<ChainReport> {
  const server = await startForTest();
  for (const { session = "s1", ...conversation } of said)
    await ask(server, { wire, ...conversation, headers: { "x-session-id": session } });
  return reportOn(server.requests());
}

const U1 = user("One\r\n");
const grown = [
  [U1],
  [U1, assistant("R1"), user("Two")],
  [U1, assistant("R1"), user("Two"), assistant("R2"), user("3")],
];

for (const wire of WIRES) {
  test(`${wire.name}: a history that only grows has equal prefixes`, async () => {
    const report = await reported(
      wire,
      grown.map((messages) => ({ messages })),
    );
    expect(report.pairs.map(({ verdict, text }) => [verdict, text])).toEqual([
      ["equal", "Two"],
      ["equal", "3"],
    ]);
    expect(report.breaks).toEqual([]);
    expect(report.pairs[1]).toMatchObject({ equalBlocks: 3, blocksBefore: 3 });
  });

  for (const [what, later, verdict] of [
    ["a text of the history", { messages: [user("One\n"), assistant("R1"), user("Two")] }, "history"],
    ["a text left out", { messages: [assistant("R1"), user("Two")] }, "history"],
    ["the system text", { messages: [U1, assistant("R1"), user("Two")], system: "You help!" }, "system"],
    ["the tools", { messages: [U1, assistant("R1"), user("Two")], tools: false }, "tools"],
  ] as const) {
    test(`${wire.name}: a break is told by its class: ${what}`, async () => {
      const { breaks } = await reported(wire, [{ messages: [U1] }, later]);
      expect(breaks.map((each) => each.verdict)).toEqual([verdict]);
    });
  }
}

test("requests of another session make a chain of their own", async () => {
  const [wire] = WIRES;
  if (wire === undefined) throw new Error("no wire");
  const other = (text: string): Said => ({ messages: [user(text)], session: "s2" });
  const said = [{ messages: [U1] }, other("Another"), { messages: [U1, assistant("R1"), user("Two")] }];
  const { pairs } = await reported(wire, said);
  expect(pairs.map(({ verdict, text }) => [verdict, text])).toEqual([["equal", "Two"]]);
});

test("the simulated cache knows what was sent before from the beginning on, and nothing behind the first change", async () => {
  const [wire] = WIRES;
  if (wire === undefined) throw new Error("no wire");
  const share = async (...said: readonly Said[]) => (await reported(wire, said)).simulatedHitShare;
  const long = user("x".repeat(10_000));
  expect(await share({ messages: [long] })).toBe(0);
  expect(await share({ messages: [long] }, { messages: [long] })).toBe(0.5);
  expect(await share({ messages: [long] }, { messages: [long] }, { messages: [long] })).toBeCloseTo(2 / 3);
  const changed = await share({ messages: [long] }, { messages: [long], system: "Other." });
  expect(changed).toBeLessThan(0.02);
});
