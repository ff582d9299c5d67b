// The gate, the prompt, what the CLI does by itself, and the ends of a pipe, on the stand-in as a real process.
import { expect, test } from "vitest";
import type { Step } from "../../../stand-ins/claude/script.ts";
import { until } from "../../../support/until.ts";
import { partsOf, playOn, standInRig, submit } from "./rig.ts";

const retry: Step = {
  print: {
    type: "system",
    subtype: "api_retry",
    attempt: 1,
    retry_delay_ms: 20,
    error: "overloaded",
    error_status: 529,
    session_id: "SESSION",
  },
};
const PLAIN: Step[] = [{ begin: true }, { answer: "Played." }, { result: {} }];

test("law 4: each gate is an own request answered on the pipe; without its answer the prompt is not sent", async () => {
  const rig = await standInRig();
  const resident = await rig.launch();
  expect(await resident.gate()).toMatchObject({ what: "answer_on_pipe", source: "stream" });
  const deaf = await standInRig({ deafTo: ["mcp_status"] });
  const silent = await deaf.launch();
  await expect(silent.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(deaf.prompts()).toEqual([]);
});

test("law 4: a CLI that has ended, or closed its stdout, passes no gate", async () => {
  const rig = await standInRig({ turns: [[...PLAIN, { closeStdout: true }]] });
  const resident = await rig.launch();
  await playOn(rig, resident, "Hello?");
  await until("the loss", () => rig.subscriptions.some((each) => each.includes("lost")));
  expect(resident.subscription()).toBeNull();
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
});

test("D1, D4: a retry of the main chain retires an old version's process behind the turn, and no other; no retry retires none", async () => {
  const turns: Step[][] = [PLAIN, [{ begin: true }, retry, { answer: "At last." }, { result: {} }]];
  for (const version of ["2.1.220", "2.1.332"]) {
    const rig = await standInRig({ turns }, { version });
    const resident = await rig.launch();
    await playOn(rig, resident, "Plain.");
    expect(resident.mustRetire(), version).toBeNull();
    const end = await playOn(rig, resident, "With a retry.");
    expect(end.status).toBe("completed");
    expect(rig.of("waiting")).toMatchObject([{ attempt: 1, reason: "overloaded (529)" }]);
    const reason = resident.mustRetire();
    if (version === "2.1.220") expect(reason).toContain("overloaded (529)");
    else expect(reason).toBeNull();
  }
});

test("D1: a retry of a child retires nothing", async () => {
  const child = { print: { ...retry.print, parent_tool_use_id: "toolu_1" } };
  const rig = await standInRig(
    { turns: [[{ begin: true }, child, ...PLAIN.slice(1)]] },
    { version: "2.1.220" },
  );
  const resident = await rig.launch();
  await playOn(rig, resident, "Delegate.");
  expect(resident.mustRetire()).toBeNull();
});

test("law 1: a text that would run a command which only the process knows is refused, and nothing is sent", async () => {
  const init = { print: { type: "system", subtype: "init", slash_commands: ["x.y"], session_id: "SESSION" } };
  const rig = await standInRig({ turns: [[{ begin: true }, init, ...PLAIN.slice(1)]] });
  const resident = await rig.launch();
  await playOn(rig, resident, "/x.y before it is known");
  expect(await resident.submit({ text: "/x.y z", nativeMessage: "m" })).toMatchObject({
    kind: "rejected",
    detail: expect.stringContaining("/x.y"),
  });
  expect(rig.prompts()).toEqual(["/x.y before it is known"]);
});

test("what the CLI does by itself is told as such, holds the gate while it lasts, and no text of it is a turn's", async () => {
  const own: Step[] = [
    { print: { type: "system", subtype: "init", slash_commands: [], session_id: "SESSION" } },
    { answer: "Nobody asked." },
  ];
  const rig = await standInRig({
    turns: [[...PLAIN, { until: "set_permission_mode" }, ...own, { afterMs: 400 }, { result: {} }], PLAIN],
  });
  const resident = await rig.launch();
  await playOn(rig, resident, "First.");
  await until("its own turn", () => rig.unrequested.length > 0);
  rig.observations.length = 0;
  const before = performance.now();
  await resident.gate();
  expect(performance.now() - before).toBeGreaterThan(150);
  expect(rig.unrequested.map((each) => each.split(" ")[1])).toEqual(["started:", "ended:"]);
  expect(rig.observations).toEqual([]);
});

test("law 4: work of its own that does not end fails the gate", async () => {
  const init: Step = {
    print: { type: "system", subtype: "init", slash_commands: [], session_id: "SESSION" },
  };
  const rig = await standInRig({ turns: [[...PLAIN, init]] }, { limits: { firstEventMs: 300 } });
  const resident = await rig.launch();
  await playOn(rig, resident, "First.");
  await until("its own turn", () => rig.unrequested.length > 0);
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
});

test("law 9: a request outside any turn is answered by the policy alone; a question, and what nobody knows, is refused", async () => {
  const ask = (id: string, request: Record<string, unknown>): Step => ({
    print: { type: "control_request", request_id: id, request },
  });
  const tool = (tool_name: string) => ({ subtype: "can_use_tool", tool_name, input: { command: "ls" } });
  const rig = await standInRig(
    {
      turns: [
        [
          ...PLAIN,
          ask("a", tool("Bash")),
          ask("b", tool("Write")),
          ask("c", tool("Edit")),
          ask("d", tool("AskUserQuestion")),
          ask("e", { subtype: "news" }),
        ],
      ],
    },
    {
      launch: {
        permissions: {
          default: "allow",
          rules: [
            { tool: "Write", pattern: "*", action: "deny" },
            { tool: "Edit", pattern: "*", action: "ask" },
          ],
          askLimitMs: 60_000,
          askDefault: "deny",
        },
      },
    },
  );
  const resident = await rig.launch();
  await playOn(rig, resident, "First.");
  const answers = () =>
    rig.lines().flatMap(({ type, response }) => {
      const { request_id, subtype, response: inner } = (response ?? {}) as Record<string, never>;
      const how = subtype === "error" ? "error" : (inner as { behavior?: string } | undefined)?.behavior;
      return type === "control_response" ? [`${String(request_id)} ${how}`] : [];
    });
  await until("every answer", () => answers().length >= 5);
  expect(answers().sort()).toEqual(["a allow", "b deny", "c deny", "d deny", "e error"]);
});

test("P25: a turn that arrives byte by byte has its characters whole", async () => {
  const text = "é ש 🦑 \u2028 \u0085";
  const message = {
    type: "assistant",
    uuid: "u",
    session_id: "SESSION",
    message: { id: "m", model: "m1", content: [{ type: "text", text }] },
  };
  const rig = await standInRig({
    turns: [[{ begin: true }, { bytewise: `${JSON.stringify(message)}\n` }, { result: {} }]],
  });
  const resident = await rig.launch();
  await playOn(rig, resident, "Say it.");
  expect(partsOf(rig)).toEqual([text]);
});

test("P27: a line of 11 MB is read and the rest follows; one that never ends is the pipe's loss, in bounded memory", async () => {
  const rig = await standInRig({
    turns: [
      [{ begin: true }, { lineBytes: 11_000_000 }, ...PLAIN.slice(1)],
      [{ begin: true }, { endless: true }],
    ],
  });
  const resident = await rig.launch();
  expect((await playOn(rig, resident, "A large one.")).status).toBe("completed");
  await submit(resident, "An endless one.");
  const lost = await rig.seen("stream_lost");
  expect(lost.reason).toContain("exceeds");
  expect(await resident.stop()).toEqual([]);
});

test("P28: noise is skipped; what is glued to the end is recovered; an end that is damaged loses the pipe, and nothing hangs", async () => {
  const result = JSON.stringify({
    type: "result",
    subtype: "success",
    is_error: false,
    num_turns: 1,
    terminal_reason: "completed",
  });
  const rig = await standInRig({
    turns: [
      [{ raw: "npm warn old\n" }, { begin: true }, { answer: "A." }, { raw: `banner v1${result}\n` }],
      [{ begin: true }, { answer: "B." }, { raw: `${result.slice(0, 30)}\n` }],
    ],
  });
  const resident = await rig.launch();
  expect((await playOn(rig, resident, "Noisy.")).status).toBe("completed");
  expect(rig.warnings.join()).toContain("noise");
  await submit(resident, "Damaged.");
  expect((await rig.seen("stream_lost")).reason).toContain("damaged");
});

test("a known message in a shape that it never had loses the turn and retires the process", async () => {
  const broken: Step = { print: { type: "result", subtype: 7, session_id: "SESSION" } };
  const rig = await standInRig({ turns: [[{ begin: true }, { answer: "A." }, broken]] });
  const resident = await rig.launch();
  await submit(resident, "Break.");
  expect((await rig.seen("stream_lost")).reason).toContain("result");
  expect(resident.mustRetire()).toContain("result");
});

test("P29: a CLI that exits at once under a prompt of 16 MB brings nothing down: its exit is told, with the code", async () => {
  const rig = await standInRig({ turns: [[{ exit: 7 }]] });
  const resident = await rig.launch();
  await resident.gate();
  const sent = await resident.submit({ text: "x".repeat(16 * 1024 * 1024), nativeMessage: "m" });
  expect(["accepted", "unclear"]).toContain(sent.kind);
  await until("the exit", () => rig.exits.length > 0);
  expect(rig.exits).toEqual([{ code: 7, signal: null }]);
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(await resident.submit({ text: "more", nativeMessage: "n" })).toMatchObject({ kind: "rejected" });
});

test("P43: a prompt of 300 KB goes over stdin; an environment value of 200 KB is refused by its name", async () => {
  const rig = await standInRig();
  const text = "y".repeat(300_000);
  await playOn(rig, await rig.launch(), text);
  expect(rig.prompts()).toEqual([text]);
  const name = "m".repeat(200_000);
  const launch = { ...rig.request().launch, model: { ...rig.request().launch.model, name } };
  await expect(rig.launch({ launch })).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: expect.stringContaining("131071"),
  });
});

test("retirement closes stdin and waits: a CLI that needs 5.2 s for its background shell ends by itself, without a signal", async () => {
  const rig = await standInRig({ endsAfterMs: 5300 });
  const resident = await rig.launch();
  expect(await resident.stop()).toEqual([]);
  expect(rig.exits).toEqual([{ code: 0, signal: null }]);
});

test("retirement ends what works on in the background first, each by its id; a refusal does not hold it up", async () => {
  const left: Step = {
    print: {
      type: "system",
      subtype: "background_tasks_changed",
      tasks: [
        { task_id: "t1", task_type: "local_bash" },
        { task_id: "t2", task_type: "local_bash" },
      ],
    },
  };
  for (const refuses of [[], ["stop_task"]]) {
    const rig = await standInRig({
      turns: [[{ begin: true }, { answer: "A." }, left, { result: {} }]],
      refuses,
    });
    const resident = await rig.launch();
    await playOn(rig, resident, "Start.");
    expect(await resident.stop()).toEqual([]);
    const asked = rig.lines().flatMap(({ request }) => {
      const { subtype, task_id } = (request ?? {}) as { subtype?: string; task_id?: string };
      return subtype === "stop_task" ? [task_id] : [];
    });
    expect(asked).toEqual(["t1", "t2"]);
    expect(rig.exits).toEqual([{ code: 0, signal: null }]);
  }
});

test("D3: a CLI that does not end with its stdin is ended by signals, politely first, and nothing is left", async () => {
  const polite = await standInRig({ staysBehindInput: true }, { limits: { stopMs: 300 } });
  const resident = await polite.launch();
  await playOn(polite, resident, "Hello?");
  expect(await resident.stop()).toEqual([]);
  // SIGTERM flushes its transcript (facts 1.9): it is never killed behind a result without having been asked.
  expect(polite.exits).toEqual([{ code: null, signal: "SIGTERM" }]);
});

test("a turn that is under way is ended by signals at once: the end of stdin would let it finish", async () => {
  const rig = await standInRig({ turns: [[{ begin: true }]], staysBehindInput: true });
  const resident = await rig.launch();
  await submit(resident, "Work.");
  await rig.seen("own_event");
  const before = performance.now();
  expect(await resident.stop()).toEqual([]);
  expect(performance.now() - before).toBeLessThan(4000);
  expect(rig.exits).toEqual([{ code: null, signal: "SIGTERM" }]);
});
