// A lost stream is lost (law 5): in an active turn each way of losing it is told once, and nothing revives the turn.
import { expect, test } from "vitest";
import type { StreamFault } from "../../../stand-ins/serve/script.ts";
import { createRig, running, steps, textOf, together } from "./rig.ts";

const turn = steps({ text: "three" }, { hold: true }, { text: "never seen" });

const LOSSES: Array<[string, StreamFault, RegExp]> = [
  ["ends cleanly while the CLI works on", "end", /ended/],
  ["is reset", "reset", /cut|broke/],
  ["falls silent with its socket open", "mute", /no byte for/],
  ["its instance is disposed of", "dispose", /disposed/],
];

test("P2: a stream that ends, is reset, falls silent or whose instance is disposed of is lost, once, with its subscription named", () =>
  together(LOSSES, async (_what, fault, reason) => {
    const { rig, resident } = await running({ turns: [steps({ open: "abc" })] }, { silenceMs: 400 });
    await rig.seen("text");
    await rig.command({ stream: fault });
    const lost = await rig.seen("stream_lost");
    expect(lost.reason).toMatch(reason);
    expect(lost.evidence).toMatchObject({ what: "subscription_lost", subscription: 1, processGeneration: 1 });
    expect(resident.subscription()).toBeNull();
    // The runner's part: one abort, whose effect is read from the server's own list.
    expect(await resident.abort()).toBe(true);
    expect(await rig.calls("/abort")).toHaveLength(1);
    expect(rig.of("stream_lost")).toHaveLength(1);
    expect(rig.of("native_end")).toEqual([]);
    expect(textOf(rig)).toBe("abc");
    // A later subscription serves later turns only.
    resident.endTurn();
    const seen = rig.observations.length;
    expect(await resident.gate()).toMatchObject({ subscription: 2 });
    expect(rig.observations.length).toBe(seen);
    await resident.stop();
  }));

test("P4: a quiet turn whose stream carries comments alone goes on for many times the limit of silence", async () => {
  const { rig, resident } = await running(
    { stream: { heartbeat: "comment", beatMs: 50 }, turns: [turn] },
    { silenceMs: 250 },
  );
  await rig.seen("text");
  const began = performance.now();
  await expect.poll(() => performance.now() - began, { timeout: 3000 }).toBeGreaterThan(1000);
  expect(rig.of("stream_lost")).toEqual([]);
  await rig.command({ stream: "mute" });
  expect((await rig.seen("stream_lost")).reason).toMatch(/no byte/);
  await resident.stop();
});

test("heartbeats as events count as bytes too, and as nothing else", async () => {
  const { rig, resident } = await running(
    { stream: { heartbeat: "data", beatMs: 50 }, turns: [steps({ nothing: true })] },
    { silenceMs: 250 },
  );
  const began = performance.now();
  await expect.poll(() => performance.now() - began, { timeout: 3000 }).toBeGreaterThan(700);
  expect(rig.observations).toEqual([]);
  await resident.stop();
});

const BEATS = { heartbeat: "data", beatMs: 50 } as const;

test("P1: a stream that still beats and carries nothing is found by a canary in the turn: lost, and one abort", async () => {
  const { rig, resident } = await running(
    { stream: BEATS, turns: [steps({ open: "abc" })] },
    { silenceMs: 2000, canaryEveryMs: 200, canaryMs: 300 },
  );
  await rig.seen("text");
  // While it carries events the canaries come back, and nobody hears of them.
  await expect.poll(async () => (await rig.calls("/tui/publish")).length).toBeGreaterThan(3);
  expect(rig.of("stream_lost")).toEqual([]);
  await rig.command({ stream: "deaf" });
  const lost = await rig.seen("stream_lost");
  expect(lost.reason).toMatch(/a canary did not come back/);
  expect(lost.evidence).toMatchObject({ subscription: 1 });
  expect(await resident.abort()).toBe(true);
  expect(await rig.calls("/abort")).toHaveLength(1);
  expect(rig.of("stream_lost")).toHaveLength(1);
  expect(rig.of("native_end")).toEqual([]);
  resident.endTurn();
  expect(await resident.gate()).toMatchObject({ subscription: 2 });
  await resident.stop();
});

test("P1: a stream that beats and carries nothing between turns is noticed before the next turn, not in it", async () => {
  const rig = await createRig({ stream: BEATS }, { silenceMs: 2000, canaryEveryMs: 150, canaryMs: 200 });
  const resident = await rig.launch();
  await resident.gate();
  await rig.command({ stream: "deaf" });
  await expect.poll(() => resident.subscription()).toBeNull();
  expect(rig.subscriptions.at(-1)).toMatch(/^1 lost a canary did not come back/);
  expect(rig.observations).toEqual([]);
  expect(await resident.gate()).toMatchObject({ subscription: 2 });
  await resident.stop();
});

test("a stream that goes deaf right before a gate fails it", async () => {
  const rig = await createRig({ stream: BEATS }, { silenceMs: 2000, canaryMs: 300 });
  const resident = await rig.launch();
  await resident.gate();
  await rig.command({ stream: "deaf" });
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(await rig.calls("prompt_async")).toEqual([]);
  await resident.stop();
});

test("what was pending when the stream is lost is closed and said so, and gets no reply afterwards", async () => {
  const { rig, resident } = await running({ turns: [steps({ tool: "bash", ask: { replies: ["lie"] } })] });
  await rig.seen("permission_asked");
  await rig.command({ stream: "end" });
  await rig.seen("stream_lost");
  resident.endTurn();
  expect(rig.of("permission_closed")).toMatchObject([{ result: "closed_by_end" }]);
  const replies = (await rig.calls("/reply")).length;
  expect(await resident.abort()).toBe(true);
  await resident.gate();
  expect(await rig.calls("/reply")).toHaveLength(replies);
  await resident.stop();
});
