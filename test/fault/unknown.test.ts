/** The bridge dies hard under a turn: nobody saw its end, somebody looks, and the conversation goes on as it was. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";

const WAITS = { name: "bash", arguments: { command: "sleep 300", description: "waits for the test" } };

/** Kills the bridge of a process sandbox; the host starts the next life of it. */
function killBridge(t: TestHost, sandbox: string): void {
  const directory = t.host.store.sandbox(sandbox)?.directory ?? "";
  const { pid } = JSON.parse(readFileSync(`${directory}/process.json`, "utf8")) as { pid: number };
  process.kill(pid, "SIGKILL");
}

test("law 11, S19: the bridge killed under a tool leaves the turn unknown; after a note the next one is RESTORED, nothing is sent twice", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "process");
  await play(t, member, "The code word is whelk.");
  t.model.reset();
  t.model.script("Wait for it", [{ kind: "reply", text: "Waiting. ", toolCalls: [WAITS] }, "It came."]);
  const turn = follow(t.host.submit(member, "Wait for it."));
  await turn.heard("turn.tool", ({ status }) => status === "running");
  killBridge(t, sandbox);
  expect(await turn.end()).toMatchObject({ outcome: "unknown", settled: false });
  const { id } = turn.handle;

  const before = t.model.mainRequests().length;
  expect(() => t.host.submit(member, "And now?")).toThrow(
    expect.objectContaining({ code: "INSPECTION_NEEDED", details: { turn: id } }),
  );
  const { settlement } = t.host.turn(id);
  const seen = t.host.inspect(id);
  expect(seen).toMatchObject({ needsNote: true, reach: "delivered", openTools: [{ tool: "bash" }] });
  expect(seen.native).toMatchObject({ nativeId: t.host.member(member).locator?.nativeId, settledTurns: 1 });
  t.host.recordInspection(id, "the tool only slept");

  const next = await play(t, member, "What is the code word?");
  expect(next.settlement).toMatchObject({
    outcome: "completed",
    context: "RESTORED",
    contextReason: `turn ${id} is unknown`,
    parts: ["The code word is whelk."],
  });
  // The CLI's own history has the unknown turn's message, once; we sent it once.
  const requests = t.model.mainRequests();
  expect(requests.length).toBe(before + 1);
  expect(userTexts(requests.at(-1)).filter((text) => text === "Wait for it.")).toHaveLength(1);
  expect(t.host.turn(id).settlement).toEqual(settlement);
  expect((await play(t, member, "And again?")).settlement.context).toBe("LIVE");
});
