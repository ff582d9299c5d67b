import { expect, test } from "vitest";
import type { Script, TurnPlan } from "../../../stand-ins/serve/script.ts";
import { createRig, running, steps, submit, textOf, together } from "./rig.ts";

test("an ordinary turn: gate, prompt with our id and text, text once, one end with its tail, id verified", async () => {
  const { rig, resident, message } = await running({ turns: [steps({ text: "Größe 🦑 of the answer" })] });
  const end = await rig.seen("native_end");
  expect(end).toMatchObject({ status: "completed", error: null, tail: { role: "assistant" } });
  expect(textOf(rig)).toBe("Größe 🦑 of the answer");
  expect(rig.of("own_event")).toHaveLength(1);
  expect(rig.of("native_end")).toHaveLength(1);
  expect((await rig.calls("prompt_async"))[0]?.body).toMatchObject({
    messageID: message,
    parts: [{ type: "text", text: "hello" }],
  });
  expect(await resident.verify()).toMatchObject({ kind: "verified", nativeId: resident.nativeId });
  expect(end.evidence[0]).toMatchObject({ source: "stream", processGeneration: 1, subscription: 1 });
  resident.endTurn();
  expect(await resident.stop()).toEqual([]);
});

test("two turns on one process and one subscription, the answer of each its own", async () => {
  const { rig, resident } = await running({ turns: [steps({ text: "first" }), steps({ text: "second" })] });
  await rig.seen("native_end");
  resident.endTurn();
  rig.observations.length = 0;
  await submit(resident, "again");
  await rig.seen("native_end");
  expect(textOf(rig)).toBe("second");
  expect(rig.subscriptions).toEqual(["1 live"]);
  expect(await rig.calls("GET /event")).toHaveLength(1);
  await resident.stop();
});

test("reasoning is never part of the answer", async () => {
  const { rig, resident } = await running({ turns: [steps({ reasoning: "secret" }, { text: "answer" })] });
  await rig.seen("native_end");
  expect(textOf(rig)).toBe("answer");
  await resident.stop();
});

test("P25: each event a byte at a time changes nothing", async () => {
  const { rig, resident } = await running({ stream: { byByte: true }, turns: [steps({ text: "é € 🦑" })] });
  await rig.seen("native_end");
  expect(textOf(rig)).toBe("é € 🦑");
  await resident.stop();
});

const ANSWERS: Array<[string, NonNullable<TurnPlan["answer"]>, "rejected" | "unclear"]> = [
  ["400", 400, "rejected"],
  ["404", 404, "rejected"],
  ["409", 409, "rejected"],
  ["500", 500, "unclear"],
  ["503", 503, "unclear"],
  ["a cut, and taken", "cut", "unclear"],
  ["a cut, and not taken", "refuse-cut", "unclear"],
  ["nothing (P5)", "silent", "unclear"],
];

test("a prompt that is refused is rejected; one whose answer is an error, a cut or nothing is unclear", () =>
  together(ANSWERS, async (_what, answer, kind) => {
    const rig = await createRig({ turns: [{ answer, steps: [{ text: "x" }] }] }, { requestMs: 600 });
    const resident = await rig.launch();
    await resident.gate();
    const message = resident.nextMessageId();
    const result = await resident.submit({ text: "hello", nativeMessage: message });
    expect(result.kind).toBe(kind);
    if (typeof answer === "string") {
      expect(await resident.holdsMessage(message)).toBe(answer === "refuse-cut" ? "absent" : "present");
    }
    await resident.stop();
  }));

test("P5: a slow answer to the prompt does not hold back the turn's own events", async () => {
  const rig = await createRig({ turns: [{ answer: "late", steps: [{ text: "x" }] }] });
  const resident = await rig.launch();
  await resident.gate();
  const result = resident.submit({ text: "hello", nativeMessage: resident.nextMessageId() });
  await rig.seen("native_end");
  expect(await result).toEqual({ kind: "accepted" });
  await resident.stop();
});

test("P16: 204 and then nothing: nothing is reported, so the runner's own limit decides", async () => {
  const { rig, resident } = await running({ turns: [steps({ nothing: true })] });
  expect(await resident.abort()).toBe(true);
  expect(rig.observations).toEqual([]);
  expect(await rig.calls("/abort")).toHaveLength(1);
  await resident.stop();
});

test("P16: an error in place of a turn is an overdue end; a session that stays busy is not called quiet", async () => {
  const { rig, resident } = await running({
    turns: [steps({ onlyError: "UnknownError", message: "Agent not found" })],
    abort: "nothing",
  });
  expect(await rig.seen("end_overdue")).toMatchObject({
    error: { name: "UnknownError", message: "Agent not found" },
  });
  expect(await resident.abort()).toBe(false);
  expect(rig.of("native_end")).toEqual([]);
  await resident.stop();
});

test("an abort ends the turn natively: one call, one end, the text so far", async () => {
  const { rig, resident } = await running({ turns: [steps({ open: "partial" })] });
  await rig.seen("text");
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted" });
  expect(rig.of("native_end")).toHaveLength(1);
  expect(textOf(rig)).toBe("partial");
  await resident.stop();
  expect(await rig.calls("/abort")).toHaveLength(1);
});

test("P17: an idle ahead of the abort's answer, and once more after it, is one end", async () => {
  const { rig, resident } = await running({
    turns: [steps({ open: "x" }), steps({ text: "next" })],
    abort: "repeat",
  });
  await rig.seen("text");
  expect(await resident.abort()).toBe(true);
  expect(rig.of("native_end")).toHaveLength(1);
  resident.endTurn();
  rig.observations.length = 0;
  await submit(resident);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(textOf(rig)).toBe("next");
  await resident.stop();
});

test("P17: an abort with nothing to abort returns within its bounds", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  await resident.gate();
  expect(await resident.abort()).toBe(true);
  await resident.stop();
});

const DEAF_ABORTS: Array<[string, NonNullable<Script["abort"]>]> = [
  ["nothing", "nothing"],
  ["silent", "silent"],
  ["500", 500],
];

test("an abort that has no effect: false within its limit, and ending the process asks no second time", () =>
  together(DEAF_ABORTS, async (_what, abort) => {
    const { rig, resident } = await running({ turns: [steps({ open: "x" })], abort });
    await rig.seen("text");
    const began = performance.now();
    expect(await resident.abort()).toBe(false);
    expect(performance.now() - began).toBeLessThan(4000);
    expect(await resident.stop()).toEqual([]);
    expect(await rig.calls("/abort")).toHaveLength(1);
    expect(await rig.processes()).toBe(0);
  }));

test("an abort right after the prompt waits until the turn has started: it is not answered into the void", async () => {
  const { rig, resident } = await running({ turns: [steps({ open: "x" })] });
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted" });
  await resident.stop();
});

test("a stop in mid-turn aborts first, so that the CLI's own children end, and leaves no process", async () => {
  const { rig, resident } = await running({
    turns: [steps({ tool: "bash", leavesChild: true }, { open: "x" })],
    ignoresSigterm: true,
  });
  await rig.seen("text");
  expect(await rig.processes()).toBe(2);
  expect(await resident.stop()).toEqual([]);
  expect(await rig.processes()).toBe(0);
  expect(await rig.calls("/abort")).toHaveLength(1);
  expect(resident.hasExited()).toBe(true);
});

test("after a stop nothing is reported as lost", async () => {
  const { rig, resident } = await running({ turns: [steps({ open: "x" })] });
  await rig.seen("text");
  await resident.stop();
  expect(rig.of("stream_lost")).toEqual([]);
  expect(rig.subscriptions.filter((line) => line.includes("lost"))).toEqual([]);
});

test("a process that dies by itself is told with its code", async () => {
  const { rig, resident } = await running({ turns: [steps({ open: "x" })] });
  await rig.seen("text");
  await rig.command({ exit: 9 }).catch(() => undefined);
  expect(await rig.exited).toMatchObject({ code: 9 });
  expect(resident.hasExited()).toBe(true);
  await resident.stop();
});

test("an identity that can't be asked is unavailable, never verified", async () => {
  const rig = await createRig({ sessionStatus: 500 });
  const resident = await rig.launch();
  expect(await resident.verify()).toMatchObject({ kind: "unavailable" });
  await resident.stop();
});
