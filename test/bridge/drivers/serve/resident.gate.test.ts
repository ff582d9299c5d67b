// What a turn must pass before a byte of it goes out (law 4), and what the CLI does when no turn of ours is active.
import { expect, test } from "vitest";
import type { Script } from "../../../stand-ins/serve/script.ts";
import { createRig, running, steps, submit, together } from "./rig.ts";

test("the gate's evidence names the canary's own subscription and place in it", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  expect(resident.subscription()).toBeNull();
  expect(await resident.gate()).toMatchObject({
    what: "canary_returned",
    source: "stream",
    processGeneration: 1,
    subscription: 1,
    sequence: 2,
  });
  expect(await resident.gate()).toMatchObject({ subscription: 1, sequence: 3 });
  await resident.stop();
});

const NO_CANARY: Array<[string, Script]> = [
  ["is swallowed", { canaries: ["swallow"] }],
  ["is refused", { canaries: ["refuse"] }],
  ["ends the stream", { canaries: ["end"] }],
  ["resets the stream", { canaries: ["reset"] }],
  ["disposes of the instance", { canaries: ["dispose"] }],
  ["reaches other directories only", { stream: { isElsewhere: true } }],
  ["comes before the subscriber is attached, until its limit (P3)", { stream: { attachAfterMs: 5000 } }],
];

test("a canary that does not come back: GATE_FAILED, and not a byte of the prompt was sent", () =>
  together(NO_CANARY, async (_what, script) => {
    const rig = await createRig(script);
    const resident = await rig.launch();
    await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
    expect(await rig.calls("prompt_async")).toEqual([]);
    expect(await rig.calls("/abort")).toEqual([]);
    await resident.stop();
  }));

test("a subscription that is lost during the gate fails it at once, not at the canary's limit", async () => {
  const rig = await createRig({ canaries: ["end"] }, { canaryMs: 10_000 });
  const resident = await rig.launch();
  const began = performance.now();
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(performance.now() - began).toBeLessThan(5000);
  await resident.stop();
});

test("a gate that failed may pass later, on a subscription of its own number", async () => {
  const rig = await createRig({ canaries: ["end", "ok"] });
  const resident = await rig.launch();
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(await resident.gate()).toMatchObject({ subscription: 2 });
  expect(rig.subscriptions).toEqual(["1 live", "1 lost the stream ended", "2 live"]);
  await resident.stop();
});

test("an idle member's lost stream is noticed before its next turn, and moves no turn", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  await resident.gate();
  await rig.command({ stream: "end" });
  await expect.poll(() => resident.subscription()).toBeNull();
  expect(rig.observations).toEqual([]);
  expect(await resident.gate()).toMatchObject({ subscription: 2 });
  await resident.stop();
});

test("P3: a subscriber that is attached late: the canary is sent again until it comes back, and the turn is seen whole", async () => {
  const rig = await createRig(
    { stream: { attachAfterMs: 700 }, turns: [steps({ text: "seen" })] },
    { canaryMs: 5000 },
  );
  const resident = await rig.launch();
  await submit(resident);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect((await rig.calls("/tui/publish")).length).toBeGreaterThan(1);
  expect(await rig.calls("prompt_async")).toHaveLength(1);
  await resident.stop();
});

const GATE_FAILED = { code: "GATE_FAILED" };

test("the gate waits until a session that works on something of its own is idle, and sends nothing before", async () => {
  const rig = await createRig({ turns: [steps({ text: "mine" })] });
  const resident = await rig.launch();
  await resident.gate();
  await rig.command({ status: { session: resident.nativeId, type: "busy" } });
  await expect.poll(() => rig.unrequested).toEqual([`${resident.nativeId} started: status busy`]);
  const asked = (await rig.calls("/session/status")).length;
  const sending = submit(resident);
  await expect.poll(async () => (await rig.calls("/session/status")).length).toBeGreaterThan(asked + 2);
  expect(await rig.calls("prompt_async")).toEqual([]);
  await rig.command({ status: { session: resident.nativeId, type: "idle" } });
  await sending;
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(rig.unrequested).toEqual([
    `${resident.nativeId} started: status busy`,
    `${resident.nativeId} ended: idle`,
  ]);
  await resident.stop();
});

test("P16: a session that stays busy with something that nobody asked for fails the gate within its limit", async () => {
  const rig = await createRig({}, { requestMs: 400 });
  const resident = await rig.launch();
  await resident.gate();
  await rig.command({ status: { session: resident.nativeId, type: "retry" } });
  await expect(resident.gate()).rejects.toMatchObject(GATE_FAILED);
  expect(await rig.calls("prompt_async")).toEqual([]);
  await resident.stop();
});

test("another session that is busy holds no gate", async () => {
  const rig = await createRig({ turns: [steps({ text: "mine" })] });
  const resident = await rig.launch();
  const stranger = await rig.launchStranger();
  await resident.gate();
  await rig.command({ status: { session: stranger, type: "busy" } });
  await submit(resident);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  await resident.stop();
});

test("a status that can't be asked fails the gate: nobody knows whether it is idle", async () => {
  const rig = await createRig({ listStatus: 500 });
  const resident = await rig.launch();
  await expect(resident.gate()).rejects.toMatchObject(GATE_FAILED);
  await resident.stop();
});

test("requests that come with no active turn get no reply, and are told as unrequested", async () => {
  const { rig, resident } = await running({ turns: [steps({ text: "done" }), steps({ text: "next" })] });
  await rig.seen("native_end");
  resident.endTurn();
  const [mine, other] = [resident.nativeId, "ses_background"];
  const raise = (type: string, properties: object) => rig.command({ emit: { type, properties } });
  await raise("permission.asked", { id: "per_1", sessionID: mine, permission: "bash", patterns: ["ls"] });
  await raise("question.asked", { id: "que_1", sessionID: other, questions: [] });
  await expect.poll(() => rig.unrequested).toHaveLength(2);
  expect(rig.unrequested[0]).toMatch(/asks for permission \(bash\); nobody answers/);
  expect(await rig.calls("/reply")).toEqual([]);
  expect(rig.of("permission_asked")).toEqual([]);
  // The next turn begins: what was going on by itself has its end in the books, and the turn its own answer.
  rig.observations.length = 0;
  await submit(resident);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(rig.unrequested.slice(2)).toEqual([`${mine} ended: a turn begins`, `${other} ended: a turn begins`]);
  expect(await rig.calls("/reply")).toEqual([]);
  await resident.stop();
});

test("pending requests that can't be listed fail the gate: the turn's could not be told from the ghosts before it", async () => {
  const rig = await createRig({ pendingStatus: 500 });
  const resident = await rig.launch();
  await expect(resident.gate()).rejects.toMatchObject({
    code: "GATE_FAILED",
    message: expect.stringMatching(/answered 500/),
  });
  expect(await rig.calls("prompt_async")).toEqual([]);
  await resident.stop();
});

test("a stop while a canary is out ends its flight at once, and nothing is published afterwards", async () => {
  const rig = await createRig({ canaries: ["swallow"] }, { canaryMs: 20_000 });
  const resident = await rig.launch();
  const gate = resident.gate().then(
    () => "passed",
    (error: { code?: string }) => error.code,
  );
  await expect.poll(async () => (await rig.calls("/tui/publish")).length).toBe(1);
  await resident.stop();
  expect(await gate).toBe("GATE_FAILED");
});
