/** Resident processes of real CLIs within a budget: retired when idle or for another, and RESTORED for their next turn. */
import { expect, test } from "vitest";
import { createMember, MEMBER, startTestHost } from "../support/host.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { processesIn } from "./engine.ts";

test("P49, F5, law 8: with room for one process the longest unused goes, and comes back RESTORED; idle ones go by themselves", async () => {
  const t = await startTestHost({ residency: { residents: 1, starts: 1, idleMs: 5000 } });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  const other = t.host.createMember({ sandbox, cli: "kilo", ...MEMBER }).id;
  const container = () => t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const servers = async () =>
    (await processesIn(container())).flatMap(
      ({ command }) => /clis\/(\w+)\/.* serve /.exec(command)?.[1] ?? [],
    );

  await play(t, member, "The code word is limpet.");
  const identity = () => [container(), t.host.member(member).locator?.nativeId];
  const made = identity();
  expect(t.host.report()).toMatchObject({ residents: [{ member }], retained: 1, queue: [] });
  // Both at once: the second waits until the first one's turn is over, and takes its place.
  const [first, second] = await Promise.all([
    play(t, member, "What is the code word?"),
    play(t, other, "The code word is whelk."),
  ]);
  expect(first.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is limpet."] });
  expect(second.settlement).toMatchObject({ context: "NEW", outcome: "completed" });
  expect(t.host.turn(second.handle.id).queued_ms).toBeGreaterThan(0);
  expect(t.host.report().residents.map((resident) => resident.member)).toEqual([other]);
  expect(await servers()).toEqual(["kilo"]);

  const back = await play(t, member, "What is the code word?");
  expect(back.settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is limpet."] });
  expect(identity()).toEqual(made);
  expect(back.settlement.timings.prepareMs).toBeGreaterThan(100);
  await until("what it takes", () => (t.host.report().residents[0]?.rssBytes ?? 0) > 50e6, 20_000);
  expect(t.host.report().memory.residentBytes).toBeLessThan(2e9);

  await until("nothing resident", () => t.host.report().residents.length === 0, 30_000);
  expect(await servers()).toEqual([]);
  const { settlement } = await play(t, other, "What is the code word?");
  expect(settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is whelk."] });
});
