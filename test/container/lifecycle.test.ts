/** Containers that stop, go, or die under a turn: what is kept is RESTORED, what is gone is LOST, and nobody guesses. */
import { expect, test } from "vitest";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { createContainer, inspectContainer, present, processIn, removeContainer } from "./engine.ts";
import { type Counts, tampering } from "./variants.ts";

const shell = (command: string) => ({
  name: "bash",
  arguments: { command, description: "a test's command" },
});

function containerOf(t: TestHost, sandbox: string): string {
  return t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
}

async function counted(): Promise<{ t: TestHost; counts: Counts }> {
  const counts: Counts = { creates: 0, starts: 0 };
  const t = await startTestHost({ around: (drivers) => tampering(drivers, counts, async () => undefined) });
  tellOnFailure(t);
  return { t, counts };
}

test("laws 2, 8; A5, A7: stopped and started, the same container has its files, and the model gets the whole history", async () => {
  const { t, counts } = await counted();
  const { sandbox, member } = createMember(t.host, "docker");
  const command =
    "printf home > ~/in-home.txt && printf work > in-workspace.txt && printf tmp > /tmp/in-tmp.txt";
  t.model.script("Leave traces", [{ kind: "reply", toolCalls: [shell(command)] }, "Left."]);
  await play(t, member, "The code word is limpet.");
  await play(t, member, "Leave traces.");
  const container = containerOf(t, sandbox);
  const { locator } = t.host.member(member);
  const startedAt = (await present(container)).State.StartedAt;
  await t.host.stopSandbox(sandbox);
  expect((await present(container)).State.Running).toBe(false);
  t.model.reset();
  const recalled = await play(t, member, "What is the code word?");
  expect(recalled.settlement).toMatchObject({
    outcome: "completed",
    settled: true,
    context: "RESTORED",
    parts: ["The code word is limpet."],
  });
  expect(userTexts(t.model.mainRequests()[0])).toEqual([
    "The code word is limpet.",
    "Leave traces.",
    "What is the code word?",
  ]);
  expect(recalled.settlement.session?.nativeId).toBe(locator?.nativeId);
  expect(containerOf(t, sandbox)).toBe(container);
  expect((await present(container)).State.StartedAt).not.toBe(startedAt);
  expect(counts).toEqual({ creates: 1, starts: 2 });
  const look = 'echo "[$(cat ~/in-home.txt) $(cat in-workspace.txt) $(cat /tmp/in-tmp.txt)]"';
  t.model.script("Look for them", [{ kind: "reply", toolCalls: [shell(look)] }, "Seen."]);
  expect((await play(t, member, "Look for them.")).settlement.context).toBe("LIVE");
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  expect(rows.findLast(({ role }) => role === "tool")?.text).toContain("[home work tmp]");
});

test("law 8, A6, A9: a container removed behind the back is LOST, also when another takes its name; others go on", async () => {
  const { t, counts } = await counted();
  const gone = createMember(t.host, "docker");
  const other = createMember(t.host, "docker");
  await play(t, gone.member, "The code word is whelk.");
  await play(t, other.member, "The code word is mussel.");
  const { locator } = t.host.member(gone.member);
  const container = containerOf(t, gone.sandbox);
  const { Name, Config, Image, HostConfig } = await present(container);
  const before = await present(containerOf(t, other.sandbox));
  await removeContainer(container);
  t.model.reset();
  await isLost();

  const impostor = await createContainer({ ...Config, Image, HostConfig }, Name);
  await isLost();
  expect((await present(impostor)).State.Running).toBe(false);
  expect(t.model.requests()).toEqual([]);
  expect(counts).toEqual({ creates: 2, starts: 2 });
  expect(t.host.member(gone.member).locator).toEqual(locator);

  const { settlement } = await play(t, other.member, "What is the code word?");
  expect(settlement).toMatchObject({
    outcome: "completed",
    context: "LIVE",
    parts: ["The code word is mussel."],
  });
  expect((await present(containerOf(t, other.sandbox))).State).toEqual(before.State);
  // Once removed for good it stays away: nothing of it is made anew for a later turn.
  expect(await inspectContainer(container)).toBeUndefined();

  async function isLost(): Promise<void> {
    const { settlement: lost } = await play(t, gone.member, "What is the code word?");
    expect(lost).toMatchObject({
      outcome: "refused",
      settled: false,
      context: "LOST",
      contextReason: "the container is gone",
      error: { code: "CONTEXT_LOST" },
    });
  }
});

test("laws 3, 11; P30: the bridge killed in a turn ends its container, which is revived once; the turn is unknown, the member waits for a note", async () => {
  const { t, counts } = await counted();
  const { sandbox, member } = createMember(t.host, "docker");
  const other = createMember(t.host, "docker");
  await play(t, member, "The code word is conch.");
  await play(t, other.member, "The code word is cowrie.");
  const container = containerOf(t, sandbox);
  const others = await present(containerOf(t, other.sandbox));
  t.model.reset();
  t.model.script("Work on", [{ kind: "neverEnd", text: "working " }]);
  const turn = follow(t.host.submit(member, "Work on."));
  await until("some text", () => turn.seen().length > 20, 30_000);
  await killBridge(container);
  const settlement = await turn.end();
  expect(settlement).toMatchObject({
    outcome: "unknown",
    settled: false,
    error: { code: "DELIVERY_UNKNOWN" },
    usage: { source: "none", inputTokens: null },
  });
  expect(t.host.turn(turn.handle.id)).toMatchObject({ state: "unknown" });
  expect(counts).toEqual({ creates: 2, starts: 3 });
  expect((await present(container)).State.Running).toBe(true);
  expect(() => t.host.submit(member, "And now?")).toThrow(
    expect.objectContaining({ code: "INSPECTION_NEEDED" }),
  );
  expect(t.host.member(member).locator?.settledTurns).toBe(1);
  const asked = t.model.mainRequests().filter((request) => userTexts(request).includes("Work on."));
  expect(asked).toHaveLength(1);

  // The engine and whatever else runs on it are as they were.
  expect((await present(containerOf(t, other.sandbox))).State).toEqual(others.State);
  const next = await play(t, other.member, "What is the code word?");
  expect(next.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is cowrie."] });
});

test("law 3: the bridge killed before anything was sent makes the turn not_sent, and it may be submitted again", async () => {
  const { t, counts } = await counted();
  const { sandbox, member } = createMember(t.host, "docker");
  await t.host.startSandbox(sandbox);
  const turn = follow(t.host.submit(member, "The code word is dulse."));
  await turn.heard("turn.accepted");
  await killBridge(containerOf(t, sandbox));
  const settlement = await turn.end();
  expect(settlement).toMatchObject({ outcome: "not_sent", settled: false, error: { code: "BRIDGE_GONE" } });
  expect(t.model.requests()).toEqual([]);
  expect(counts).toEqual({ creates: 1, starts: 2 });
  const again = await play(t, member, "The code word is dulse.");
  expect(again.settlement).toMatchObject({ outcome: "completed", context: "NEW", parts: ["Noted: dulse."] });
  expect(t.model.mainRequests().map(userTexts)).toEqual([["The code word is dulse."]]);
});

/** As a fault of its own would end it: the bridge, not the init above it. */
async function killBridge(container: string): Promise<void> {
  const { pid } = await processIn(container, (command) => command.startsWith("/opt/holdfast/node "));
  process.kill(pid, "SIGKILL");
}
