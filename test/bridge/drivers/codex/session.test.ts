import { expect, test } from "vitest";
import type { Step } from "../../../stand-ins/codex/script.ts";
import { LAUNCH } from "../../../support/samples.ts";
import { until } from "../../../support/until.ts";
import { createRig, submit, THREAD, TURN } from "./rig.ts";

const OTHER = "01a22ce0-1111-7000-8000-00000000000f";
const turn = (
  method: "turn/started" | "turn/completed",
  threadId: string,
  id: string,
  rootTurnId = id,
): Step => ({
  print: {
    method,
    params: {
      threadId,
      turn: { id, rootTurnId, status: method === "turn/started" ? "inProgress" : "completed", error: null },
    },
  },
});

test("law 4: the gate is an own request that is answered on the pipe, for this very thread", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  expect(await resident.gate()).toMatchObject({
    what: "answer_returned",
    source: "stream",
    subscription: 1,
    processGeneration: 1,
  });
  expect(rig.told).toEqual(["1 live"]);
});

test("a thread that is at work is waited for, and taken when it is idle", async () => {
  const rig = await createRig({ read: [{ status: { type: "active" } }, { status: { type: "active" } }, {}] });
  const resident = await rig.launch();
  await resident.gate();
  expect(rig.read().filter(({ method }) => method === "thread/read")).toHaveLength(3);
});

test.each([
  ["is at work for ever", { status: { type: "active" } }, "busy"],
  ["is not loaded", { status: { type: "notLoaded" } }, "not loaded"],
  ["is another one", { id: "another" }, "another thread"],
  ["has no status", { status: 7 }, "does not say"],
])("law 4: no prompt goes to a thread that %s", async (_, read, reason) => {
  const rig = await createRig({ read: [read] }, { requestMs: 300 });
  const resident = await rig.launch();
  await expect(resident.gate()).rejects.toMatchObject({
    code: "GATE_FAILED",
    message: expect.stringContaining(reason),
  });
});

test("law 4: a codex that does not answer fails the gate in bounded time", async () => {
  const rig = await createRig({ deafTo: ["thread/read"] }, { requestMs: 200 });
  const resident = await rig.launch();
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
});

test("the text goes out unchanged, once, with our id and nothing beside it", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  await resident.gate();
  const text = "/init @file !ls $x \r\n  ";
  await resident.submit({ text, nativeMessage: "our id" });
  await rig.seen("native_end");
  expect(rig.read().filter(({ method }) => method === "turn/start")).toMatchObject([
    {
      params: {
        threadId: THREAD,
        clientUserMessageId: "our id",
        input: [{ type: "text", text, text_elements: [] }],
      },
    },
  ]);
  expect(rig.read().find(({ method }) => method === "turn/start")?.params).not.toHaveProperty(
    "additionalContext",
  );
  expect(resident.nextMessageId()).not.toBe(resident.nextMessageId());
});

test("a refused prompt runs nothing, an unanswered or unnamed one is unclear", async () => {
  const refused = await createRig({ refuse: { "turn/start": ["thread not found"] } });
  expect(await submit(await refused.launch())).toMatchObject({
    kind: "rejected",
    detail: expect.stringContaining("thread not found"),
  });
  const silent = await createRig({ deafTo: ["turn/start"] }, { requestMs: 200 });
  expect(await submit(await silent.launch())).toMatchObject({ kind: "unclear" });
});

test("a prompt that codex steers into a turn that ran already is never taken for one of its own", async () => {
  const rig = await createRig({
    signalled: [turn("turn/started", "THREAD", OTHER)],
    prompts: [{ turn: OTHER, isSilent: true }],
  });
  const resident = await rig.launch();
  await resident.gate();
  // Behind the gate codex begins something by itself.
  await rig.signal();
  await until("its start", () => rig.told.includes(`unrequested started in ${THREAD}`), 5000);
  expect(await resident.submit({ text: "Hello.", nativeMessage: "m" })).toMatchObject({
    kind: "unclear",
    detail: expect.stringContaining("ran already"),
  });
});

test("what codex does by itself is told as nobody's work, and the gate waits for its end", async () => {
  const rig = await createRig(
    {
      signalled: [
        turn("turn/started", "THREAD", OTHER),
        turn("turn/started", "child", "c1"),
        { until: "thread/read" },
        turn("turn/completed", "THREAD", OTHER),
        turn("turn/completed", "child", "c1"),
      ],
    },
    { requestMs: 5000 },
  );
  const resident = await rig.launch();
  await rig.signal();
  await until("its start", () => rig.told.includes("unrequested started in child"), 5000);
  await resident.gate();
  await until("its end", () => rig.told.includes("unrequested ended in child"), 5000);
  expect(rig.told).toEqual([
    "1 live",
    `unrequested started in ${THREAD}`,
    "unrequested started in child",
    `unrequested ended in ${THREAD}`,
    "unrequested ended in child",
  ]);
});

test("law 7: the identity is what the thread says of itself now", async () => {
  const cases: Array<[Record<string, unknown>, string]> = [
    [{}, "verified"],
    [{ id: "another" }, "changed"],
    [{ cwd: "/elsewhere" }, "changed"],
    [{ status: null }, "unavailable"],
  ];
  for (const [read, kind] of cases) {
    const rig = await createRig({ read: [read] });
    const resident = await rig.launch();
    expect(await resident.verify()).toMatchObject({ kind });
    await resident.stop();
  }
  const silent = await createRig({ deafTo: ["thread/read"] }, { requestMs: 200 });
  expect(await (await silent.launch()).verify()).toMatchObject({ kind: "unavailable" });
});

const child = turn("turn/started", "child", "c1", "TURN");
const command: Step = {
  print: {
    method: "item/started",
    params: {
      threadId: "THREAD",
      turnId: "TURN",
      item: { type: "commandExecution", id: "i", command: "sleep 9", status: "inProgress" },
    },
  },
};

test.each([
  [false, ["turn/interrupt", "thread/backgroundTerminals/clean"], []],
  [true, [], ["unrequested started in child"]],
])(
  "law 15: with background %s, what works on behind a turn is ended, or told as nobody's",
  async (background, asked, told) => {
    const rig = await createRig({
      prompts: [{ steps: [child, command, { say: "Gone." }, { end: "completed" }] }],
    });
    const resident = await rig.launch({ launch: { ...LAUNCH, cli: "codex", background } });
    await submit(resident);
    await rig.seen("native_end");
    // Whoever verifies finds it done.
    expect((await resident.verify()).kind).toBe("verified");
    const clearing = ["turn/interrupt", "thread/backgroundTerminals/clean"];
    expect(rig.read().flatMap(({ method = "" }) => (clearing.includes(method) ? [method] : []))).toEqual(
      asked,
    );
    expect(rig.told.filter((each) => each.startsWith("unrequested"))).toEqual(told);
  },
);

test("what can't be cleared away is said, and the turn stays what it is", async () => {
  const rig = await createRig({
    prompts: [{ steps: [command, { say: "Gone." }, { end: "completed" }] }],
    refuse: { "thread/backgroundTerminals/clean": ["not now"] },
  });
  const resident = await rig.launch();
  await submit(resident);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect((await resident.verify()).kind).toBe("verified");
  expect(rig.log.lines.map(({ what }) => what)).toContain("what a turn left could not be ended");
});

test("two turns of one process are two, each with its own id and count", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  await submit(resident, "One.");
  await rig.seen("native_end");
  resident.endTurn();
  await submit(resident, "Two.");
  await until("its end", () => rig.of("native_end").length === 2, 5000);
  const [first, second] = rig.of("native_end");
  expect(first?.tail?.id).toBe(TURN);
  expect(second?.tail?.id).not.toBe(TURN);
  // The stand-in says the same figures again: nothing is known of the second.
  expect([first?.usage.inputTokens, second?.usage.inputTokens]).toEqual([100, null]);
});

test("no process has to be retired, and nobody can be asked for a message", async () => {
  const resident = await (await createRig()).launch();
  expect(resident.mustRetire()).toBeNull();
  expect(await resident.holdsMessage("x")).toBe("unclear");
});
