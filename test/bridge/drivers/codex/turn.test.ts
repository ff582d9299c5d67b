import { expect, test } from "vitest";
import { ALLOW_ALL } from "../../../../protocol/permission-policy.ts";
import type { Step } from "../../../stand-ins/codex/script.ts";
import { LAUNCH } from "../../../support/samples.ts";
import { until } from "../../../support/until.ts";
import { createRig, type Rig, submit, THREAD, TURN } from "./rig.ts";

const OTHER = "01a22ce0-1111-7000-8000-00000000000f";
const inTurn = { threadId: "THREAD", turnId: "TURN" };
const interrupts = (rig: Rig) =>
  rig.read().flatMap(({ method, params }) => (method === "turn/interrupt" ? [params] : []));
const replies = (rig: Rig) => rig.read().filter(({ method }) => method === undefined);
const error = (willRetry: boolean): Step => ({
  print: {
    method: "error",
    params: { ...inTurn, willRetry, error: { message: "down", codexErrorInfo: "other" } },
  },
});
const asks = (id: number, more: object = {}, method = "item/commandExecution/requestApproval"): Step => ({
  print: { id, method, params: { ...inTurn, itemId: `i${id}`, command: "/bin/bash -lc ls", ...more } },
});

test("a turn: its own event, its text, its end; the answer names it, or its own message does", async () => {
  for (const isLate of [undefined, true] as const) {
    const rig = await createRig({ prompts: [isLate === undefined ? {} : { isLate }] });
    const resident = await rig.launch();
    expect(await submit(resident)).toEqual({ kind: "accepted" });
    const end = await rig.seen("native_end");
    expect(end).toMatchObject({
      status: "completed",
      error: null,
      tail: { role: "assistant", id: TURN },
      usage: { source: "cli", inputTokens: 100, outputTokens: 10 },
      evidence: [{ what: "turn_completed", source: "stream", detail: `${TURN} completed` }],
    });
    expect(rig.observations.map(({ kind }) => kind)).toEqual(["own_event", "text", "text", "native_end"]);
    expect(
      rig
        .of("text")
        .map(({ text }) => text)
        .join(""),
    ).toBe("Played.");
    await resident.stop();
  }
});

test("C2: the ends of another turn and of another thread are no end of ours", async () => {
  const strange = (threadId: string, id: string): Step => ({
    print: { method: "turn/completed", params: { threadId, turn: { id, status: "completed", error: null } } },
  });
  const steps: Step[] = [
    strange("THREAD", OTHER),
    strange("another", "TURN"),
    { say: "Mine." },
    { end: "failed", error: { message: "no room", codexErrorInfo: "other" } },
  ];
  const rig = await createRig({ prompts: [{ steps }] });
  await submit(await rig.launch());
  expect(await rig.seen("native_end")).toMatchObject({
    status: "failed",
    error: { name: "other", message: "no room" },
  });
  expect(rig.of("native_end")).toHaveLength(1);
});

test("P18: an interrupt that names an outdated turn is tried once more with the one that codex names, whose end is the end", async () => {
  const refusal = `expected active turn id TURN but found ${OTHER}`;
  const rig = await createRig({
    prompts: [{ steps: [{ say: "On and on." }] }],
    refuse: { "turn/interrupt": [refusal, null] },
    interrupted: [{ end: "interrupted" }, { say: "Still there." }, { until: "turn/steer" }],
  });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("text");
  const aborting = resident.abort();
  await until("two interrupts", () => interrupts(rig).length === 2, 5000);
  expect(interrupts(rig)).toEqual([
    { threadId: THREAD, turnId: TURN },
    { threadId: THREAD, turnId: OTHER },
  ]);
  // The end of the outdated turn is not the end.
  expect(await aborting).toBe(false);
  expect(rig.of("native_end")).toEqual([]);
  await resident.stop();

  const second = await createRig({
    prompts: [{ steps: [{ say: "On and on." }] }],
    refuse: { "turn/interrupt": [refusal, null] },
    interrupted: [{ end: "interrupted", turn: OTHER }],
  });
  const other = await second.launch();
  await submit(other);
  await second.seen("text");
  expect(await other.abort()).toBe(true);
  expect(second.of("native_end")).toMatchObject([{ status: "aborted", tail: { id: OTHER } }]);
  expect(interrupts(second)).toHaveLength(2);
});

test.each([
  ["a turn that is never the right one", [`expected active turn id TURN but found ${OTHER}`]],
  ["no reason that we know", ["not now"]],
])(
  "P18: an interrupt that is refused for good ends nothing and says so, in bounded time: %s",
  async (_, refusals) => {
    const rig = await createRig(
      { prompts: [{ steps: [{ say: "On." }] }], refuse: { "turn/interrupt": refusals } },
      { abortMs: 400 },
    );
    const resident = await rig.launch();
    await submit(resident);
    await rig.seen("text");
    expect(await resident.abort()).toBe(false);
    expect(interrupts(rig).length).toBeLessThanOrEqual(2);
    expect(rig.of("native_end")).toEqual([]);
    // What is left to its runner.
    expect(await resident.stop()).toEqual([]);
    expect(await rig.processes()).toBe(0);
  },
);

test("an interrupt waits until the turn is seen to run: codex would know of none, and run it afterwards", async () => {
  const rig = await createRig(
    {
      prompts: [{ isSilent: true }],
      signalled: [
        {
          print: {
            method: "turn/started",
            params: { threadId: "THREAD", turn: { id: "TURN", status: "inProgress" } },
          },
        },
      ],
    },
    { abortMs: 5000 },
  );
  const resident = await rig.launch();
  await submit(resident);
  const aborting = resident.abort();
  await resident.verify();
  expect(interrupts(rig)).toEqual([]);
  await rig.signal();
  expect(await aborting).toBe(true);
  expect(interrupts(rig)).toHaveLength(1);
  expect(rig.observations.map(({ kind }) => kind)).toEqual(["own_event", "native_end"]);
});

test("an abort ends the subagents' turns too", async () => {
  const steps: Step[] = [
    {
      print: {
        method: "turn/started",
        params: { threadId: "child", turn: { id: "c1", rootTurnId: "TURN", status: "inProgress" } },
      },
    },
    { say: "On." },
  ];
  const rig = await createRig({ prompts: [{ steps }] });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("text");
  expect(await resident.abort()).toBe(true);
  await resident.verify();
  expect(interrupts(rig)).toContainEqual({ threadId: "child", turnId: "c1" });
});

test("law 9: each request of ours gets one reply, of a subagent too; every other one a refusal, unknown ones an error", async () => {
  const child = {
    method: "turn/started",
    params: { threadId: "child", turn: { id: "c1", rootTurnId: "TURN", status: "inProgress" } },
  };
  const steps: Step[] = [
    { print: child },
    asks(0),
    asks(1, { threadId: "child", turnId: "c1" }),
    asks(2, { threadId: "stranger", turnId: "s1" }),
    asks(3, { turnId: OTHER }),
    asks(4, { serverName: "x" }, "mcpServer/elicitation/request"),
    asks(5, {}, "item/tool/call"),
    asks(6, {}, "something/new"),
    asks(7, { command: 7 }),
    ...[0, 1, 2, 3, 4, 5, 6, 7].map((id): Step => ({ until: `reply ${id}` })),
    { end: "completed" },
  ];
  const rig = await createRig({ prompts: [{ steps }] });
  const resident = await rig.launch({ launch: { ...LAUNCH, cli: "codex", permissions: ALLOW_ALL } });
  await submit(resident);
  await rig.seen("native_end");
  expect(replies(rig).toSorted((a, b) => Number(a.id) - Number(b.id))).toMatchObject([
    { id: 0, result: { decision: "accept" } },
    { id: 1, result: { decision: "accept" } },
    { id: 2, result: { decision: "decline" } },
    { id: 3, result: { decision: "decline" } },
    { id: 4, result: { action: "decline" } },
    { id: 5, error: { code: -32601 } },
    { id: 6, error: { code: -32601 } },
    { id: 7, result: { decision: "decline" } },
  ]);
  expect(rig.of("permission_asked").map(({ request }) => request.session)).toEqual([THREAD, "child"]);
});

test("a patch is judged by its paths, below the working directory as a rule names them", async () => {
  const changes = (root: string) => [
    { path: `${root}/src/a.ts`, kind: { type: "add" } },
    { path: "/etc/passwd", kind: { type: "update", move_path: null } },
  ];
  const rig = await createRig();
  const item = { type: "fileChange", id: "i0", changes: changes(rig.slot.workspace), status: "inProgress" };
  const steps: Step[] = [
    { print: { method: "item/started", params: { ...inTurn, item } } },
    asks(0, { command: null }, "item/fileChange/requestApproval"),
    { until: "reply 0" },
    { end: "completed" },
  ];
  rig.script({ prompts: [{ steps }] });
  await submit(await rig.launch());
  await rig.seen("native_end");
  expect(rig.of("permission_asked")[0]?.request).toMatchObject({
    permission: "apply_patch",
    patterns: ["src/a.ts", "/etc/passwd"],
  });
});

test("a request that codex takes back is closed, and one that the end leaves open too", async () => {
  const resolved: Step = {
    print: { method: "serverRequest/resolved", params: { threadId: "THREAD", requestId: 0 } },
  };
  const rig = await createRig({
    prompts: [{ steps: [asks(0), resolved, asks(1), { end: "interrupted" }, resolved] }],
  });
  const permissions = { ...ALLOW_ALL, default: "ask" as const };
  await submit(await rig.launch({ launch: { ...LAUNCH, cli: "codex", permissions } }));
  await rig.seen("native_end");
  expect(rig.of("permission_closed").map(({ request, result }) => `${request} ${result}`)).toEqual([
    "0 withdrawn",
    "1 closed_by_end",
  ]);
  expect(replies(rig)).toEqual([]);
});

test("C5: a reported error, or an idle thread, without an end is overdue and no settlement", async () => {
  const idle: Step = {
    print: { method: "thread/status/changed", params: { threadId: "THREAD", status: { type: "idle" } } },
  };
  for (const [step, name] of [
    [error(false), "other"],
    [idle, null],
  ] as const) {
    const rig = await createRig({ prompts: [{ steps: [step] }] });
    await submit(await rig.launch());
    const overdue = await rig.seen("end_overdue");
    expect(overdue.error?.name ?? null).toBe(name);
    expect(rig.of("native_end")).toEqual([]);
  }
});

test("P19: a wait for the provider is told, and at its limit the turn's reason; further waits do not extend it, progress does", async () => {
  const rig = await createRig({ prompts: [{ steps: [error(true), error(true), { until: "never" }] }] });
  await submit(await rig.launch());
  expect(await rig.seen("provider_late")).toMatchObject({ reason: "down" });
  expect(rig.of("waiting")).toMatchObject([
    { attempt: 1, nextAt: null, reason: "down" },
    { attempt: 2, nextAt: null },
  ]);
  const second = await createRig(
    { prompts: [{ steps: [error(true), { say: "Again." }, error(false)] }] },
    { providerWaitMs: 200, endOverdueMs: 600 },
  );
  await submit(await second.launch());
  // Later than the wait's limit would have been.
  await second.seen("end_overdue");
  expect(second.of("provider_late")).toEqual([]);
});

test("P28: noise on stdout is skipped, and an end that is glued to it is still the end", async () => {
  const line = JSON.stringify({
    method: "turn/completed",
    params: { threadId: "THREAD", turn: { id: "TURN", status: "completed", error: null } },
  });
  const steps: Step[] = [
    { raw: "npm warn something\n" },
    { raw: "{ not json at all\n" },
    { say: "Said." },
    { raw: `banner v1 ${line}\n` },
  ];
  const rig = await createRig({ prompts: [{ steps }] });
  await submit(await rig.launch());
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(rig.log.lines.filter(({ what }) => what.startsWith("noise")).length).toBeGreaterThan(0);
});

test("P28: a damaged end loses the pipe: the turn is not settled, and not left hanging", async () => {
  const rig = await createRig({
    prompts: [{ steps: [{ raw: '{"method":"turn/completed","params":{"thr\n' }] }],
  });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("stream_lost");
  expect(rig.of("native_end")).toEqual([]);
  expect(resident.subscription()).toBeNull();
});

test("P29: a codex that ends with a large prompt on its way ends the submission, and nothing else", async () => {
  const rig = await createRig({ prompts: [{ steps: [{ exit: 7 }] }] });
  const resident = await rig.launch();
  const text = "x".repeat(16 * 1024 * 1024);
  const result = await submit(resident, text);
  expect(["accepted", "unclear"]).toContain(result.kind);
  await until("the exit", () => rig.told.includes("exit 7"), 5000);
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
});

test("nothing of a turn is reported behind its close, and its end is nobody's", async () => {
  const rig = await createRig({
    prompts: [{ steps: [{ say: "One." }] }],
    signalled: [{ say: "Two.", item: "late" }, asks(9, {}), { end: "completed" }],
  });
  const resident = await rig.launch();
  await submit(resident);
  await until("its text", () => rig.of("text").length === 2, 5000);
  resident.endTurn();
  const before = rig.observations.length;
  await rig.signal();
  await until("the refusal", () => replies(rig).length === 1, 5000);
  expect(replies(rig)).toMatchObject([{ id: 9, result: { decision: "decline" } }]);
  await resident.verify();
  expect(rig.observations.slice(before)).toEqual([]);
});
