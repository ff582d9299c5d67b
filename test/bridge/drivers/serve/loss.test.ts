// A lost stream is lost (law 5): in an active turn each way of losing it is told once, and nothing revives the turn.
import { expect, test } from "vitest";
import type { Script } from "../../../stand-ins/serve/script.ts";
import { running, steps, textOf } from "./rig.ts";

const turn = steps({ text: "three" }, { hold: true }, { text: "never seen" });

test.each<[string, Script, RegExp]>([
  ["P2: ends cleanly while the CLI works on", { turns: [steps({ open: "abc" })] }, /ended/],
  ["is reset", { turns: [steps({ open: "abc" })] }, /cut|broke/],
  ["P1, P4b: falls silent with its socket open", { turns: [steps({ open: "abc" })] }, /no byte for/],
  ["ends with its instance disposed of", { turns: [steps({ open: "abc" })] }, /disposed/],
])("a stream that %s is lost, once, with its subscription named", async (what, script, reason) => {
  const fault = what.includes("cleanly")
    ? "end"
    : what.includes("reset")
      ? "reset"
      : what.includes("silent")
        ? "mute"
        : "dispose";
  const { rig, resident } = await running(script, { silenceMs: 400 });
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
});

test("P4a: a quiet turn whose stream carries comments alone goes on for many times the limit of silence", async () => {
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

test("a stream that still beats and carries nothing of the turn is not called lost, and not called alive: the next gate fails", async () => {
  const { rig, resident } = await running(
    { stream: { heartbeat: "data", beatMs: 50 }, turns: [steps({ open: "abc" })] },
    { silenceMs: 250 },
  );
  await rig.seen("text");
  await rig.command({ stream: "deaf" });
  expect(await resident.abort()).toBe(true);
  expect(rig.of("native_end")).toEqual([]);
  resident.endTurn();
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
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
  await resident.gate();
  expect(await rig.calls("/reply")).toHaveLength(replies);
  await resident.stop();
});
