import { expect, test } from "vitest";
import type { Script } from "../../../stand-ins/pi/script.ts";
import { createRig, SESSION, submit } from "./rig.ts";

const END = [
  { print: { type: "agent_end", messages: [], willRetry: false } },
  { print: { type: "agent_settled", aborted: false } },
];

test("the gate is an own request, answered by an idle session of the saved id", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  expect(await resident.gate()).toMatchObject({
    what: "answer_returned",
    source: "stream",
    subscription: 1,
    processGeneration: 1,
  });
  await resident.stop();
});

test.each<[string, Record<string, unknown>, string]>([
  ["works", { isStreaming: true }, "busy"],
  ["compacts", { isCompacting: true }, "busy"],
  ["has work queued", { pendingMessageCount: 1 }, "busy"],
  ["is another one", { sessionId: "another" }, "in another session (another)"],
])("a session that %s does not pass the gate", async (_what, state, message) => {
  const prompts = [{ steps: [{ answer: "One." }, { state }, ...END] }];
  const rig = await createRig({ prompts }, { requestMs: 200 });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("native_end");
  resident.endTurn();
  await expect(resident.gate()).rejects.toMatchObject({
    code: "GATE_FAILED",
    message: expect.stringContaining(message),
  });
  await resident.stop();
});

test("a pipe without an answer does not pass the gate", async () => {
  const rig = await createRig(
    { prompts: [{ steps: [{ answer: "One." }, { deafTo: "get_state" }, ...END] }] },
    { requestMs: 200 },
  );
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("native_end");
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(await resident.verify()).toMatchObject({ kind: "unavailable" });
  await resident.stop();
});

test.each<[string, Script["prompts"], string, string]>([
  ["refused", [{ refused: "No API key", steps: [] }], "rejected", "No API key"],
  ["taken by an extension", [{ disposition: "handled", steps: [] }], "rejected", "an extension"],
  ["put behind other work", [{ disposition: "queued", steps: [] }], "unclear", "behind other work"],
  ["never answered", [{ before: [{ until: "nothing" }], steps: [] }], "unclear", "no result within"],
  ["the last thing it reads", [{ before: [{ kill: true }], steps: [] }], "unclear", ""],
])("a prompt that is %s", async (_what, prompts, kind, detail) => {
  const rig = await createRig({ ...(prompts === undefined ? {} : { prompts }) }, { requestMs: 300 });
  const resident = await rig.launch();
  expect(await submit(resident)).toEqual({ kind, detail: expect.stringContaining(detail) });
  expect(rig.of("own_event")).toEqual([]);
  expect(rig.of("end_overdue")).toEqual([]);
  await resident.stop();
});

test("a compaction before the prompt is its acceptance: pi answers only behind it", async () => {
  const before = [{ print: { type: "compaction_start", reason: "threshold" } }, { until: "abort" }];
  const rig = await createRig(
    { prompts: [{ before, steps: [{ answer: "After." }, ...END] }] },
    { requestMs: 300 },
  );
  const resident = await rig.launch();
  expect(await submit(resident)).toEqual({ kind: "accepted" });
  expect(rig.of("own_event")).toMatchObject([{ evidence: { detail: "compaction_start" } }]);
  // Longer than any request of ours may take: the answer comes when it comes.
  await new Promise((resolve) => setTimeout(resolve, 400));
  void resident.abort();
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  await resident.stop();
});

test("a prompt that is refused behind its compaction is an overdue end, with pi's words", async () => {
  const before = [
    { print: { type: "compaction_start", reason: "threshold" } },
    { print: { type: "compaction_end", willRetry: false } },
  ];
  const rig = await createRig({ prompts: [{ before, refused: "No API key", steps: [] }] });
  const resident = await rig.launch();
  await submit(resident);
  expect(await rig.seen("end_overdue")).toMatchObject({ error: { message: "No API key" } });
  await resident.stop();
});

test("turns follow one another; each tail is the turn's own answer", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  const tails: unknown[] = [];
  for (const text of ["First.", "Second."]) {
    await resident.gate();
    await submit(resident, text);
    await expect.poll(() => rig.of("native_end")).toHaveLength(tails.length + 1);
    tails.push(rig.of("native_end").at(-1)?.tail);
    resident.endTurn();
  }
  expect(tails).toEqual([
    { role: "assistant", id: "000000e2" },
    { role: "assistant", id: "000000e4" },
  ]);
  expect(new Set([resident.nextMessageId(), resident.nextMessageId()]).size).toBe(2);
  await resident.stop();
});

test("law 7: the id is verified, and another one is told", async () => {
  const prompts = [{ steps: [{ answer: "One." }, { state: { sessionId: "another" } }, ...END] }];
  const rig = await createRig({ prompts });
  const resident = await rig.launch();
  expect(await resident.verify()).toMatchObject({ kind: "verified", nativeId: SESSION });
  await submit(resident);
  await rig.seen("native_end");
  expect(await resident.verify()).toMatchObject({ kind: "changed", observed: "another" });
  await resident.stop();
});

test("what pi could not write is no completed turn, keeps the tail before it, and retires the process", async () => {
  const prompts = [
    { steps: [{ answer: "Kept." }, ...END] },
    { steps: [{ answer: "Lost.", isStored: false as const }, ...END] },
  ];
  const rig = await createRig({ prompts });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("native_end");
  resident.endTurn();
  await submit(resident);
  await expect.poll(() => rig.of("native_end")).toHaveLength(2);
  expect(rig.of("native_end").at(-1)).toMatchObject({
    status: "failed",
    error: { name: "HistoryNotWritten" },
    tail: { role: "user", id: "000000e3" },
  });
  expect(resident.mustRetire()).toContain("history");
  await resident.stop();
});

test("work that nobody asked for is told as such, and is no turn", async () => {
  const prompts = [
    { steps: [{ answer: "One." }, ...END, { print: { type: "agent_start" } }, { answer: "Mine." }, ...END] },
  ];
  const rig = await createRig({ prompts });
  const resident = await rig.launch();
  await submit(resident);
  await expect.poll(() => rig.told).toContain(`unrequested ended in ${SESSION}`);
  expect(rig.told).toContain(`unrequested started in ${SESSION}`);
  await rig.seen("native_end");
  expect(rig.of("text").map(({ text }) => text)).toEqual(["One."]);
  await resident.stop();
});

test("a failing extension is logged by its event, without its words", async () => {
  const error = { type: "extension_error", extensionPath: "/x", event: "agent_end", error: "secret" };
  const rig = await createRig({ prompts: [{ steps: [{ print: error }, { answer: "One." }, ...END] }] });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("native_end");
  expect(JSON.stringify(rig.log.lines)).toContain("agent_end");
  expect(JSON.stringify(rig.log.lines)).not.toContain("secret");
  await resident.stop();
});
