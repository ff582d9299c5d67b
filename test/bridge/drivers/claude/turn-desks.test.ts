// Permissions and questions of a turn, on the stand-in as a real process.
import { expect, test } from "vitest";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import type { Step } from "../../../stand-ins/claude/script.ts";
import { until } from "../../../support/until.ts";
import { type StandInRig, standInRig, submit } from "./rig.ts";

const ask = (id: string, request: Record<string, unknown> = {}): Step => ({
  print: {
    type: "control_request",
    request_id: id,
    request: {
      subtype: "can_use_tool",
      tool_name: "Bash",
      tool_use_id: `toolu_${id}`,
      input: { command: "ls" },
      ...request,
    },
  },
});
/** What the real CLI prints when it has taken an answer. */
const playedBack = (id: string): Step => ({
  print: { type: "control_response", response: { subtype: "success", request_id: id, response: {} } },
});
const QUESTION = {
  tool_name: "AskUserQuestion",
  input: {
    questions: [
      { question: "Which?", header: "H", multiSelect: false, options: [{ label: "blue", description: "" }] },
    ],
  },
};
const END: Step[] = [{ answer: "Done." }, { result: {} }];

const policy = (changes: Partial<MemberPolicy>) => ({
  launch: { permissions: { ...ALLOW_ALL, ...changes } },
});

/** The answers that the stand-in got, each as `ID behaviour`. */
function answersTo(rig: StandInRig): string[] {
  return rig.lines().flatMap(({ type, response }) => {
    if (type !== "control_response") return [];
    const { request_id, response: inner } = response as {
      request_id: string;
      response: { behavior: string };
    };
    return [`${request_id} ${inner.behavior}`];
  });
}

test("law 9: the policy's reply goes out once, and is confirmed when the CLI plays it back", async () => {
  const rig = await standInRig({
    turns: [
      [{ begin: true }, ask("a"), { until: "control_response" }, playedBack("a"), playedBack("a"), ...END],
    ],
  });
  const resident = await rig.launch();
  await submit(resident, "Go.");
  await rig.seen("native_end");
  expect(rig.of("permission_asked")).toMatchObject([
    {
      action: "allow",
      deadlineAt: null,
      request: { permission: "Bash", patterns: ["ls"], session: resident.nativeId },
    },
  ]);
  expect(rig.of("permission_closed")).toMatchObject([
    { request: "a", result: "confirmed", reply: "once", by: "policy" },
  ]);
  expect(answersTo(rig)).toEqual(["a allow"]);
});

test("law 9: where no word comes, the tool's own result confirms the reply, and else the end closes it as written", async () => {
  const call: Step = {
    print: {
      type: "assistant",
      uuid: "u",
      session_id: "SESSION",
      message: {
        id: "m",
        model: "m1",
        content: [{ type: "tool_use", id: "toolu_a", name: "Bash", input: {} }],
      },
    },
  };
  const done: Step = {
    print: {
      type: "user",
      session_id: "SESSION",
      message: { content: [{ type: "tool_result", tool_use_id: "toolu_a" }] },
    },
  };
  const rig = await standInRig({
    turns: [
      [
        { begin: true },
        call,
        ask("a"),
        { until: "control_response" },
        done,
        ask("b"),
        { until: "control_response" },
        ...END,
      ],
    ],
  });
  const resident = await rig.launch();
  await submit(resident, "Go.");
  await rig.seen("native_end");
  expect(rig.of("permission_closed").map(({ request, result, detail }) => [request, result, detail])).toEqual(
    [
      ["a", "confirmed", "the tool has its result"],
      ["b", "closed_by_end", expect.stringContaining("written")],
    ],
  );
});

test("E2: the user's answer goes to its request once; strangers', late and unfitting ones are refused by their codes", async () => {
  const rig = await standInRig(
    {
      turns: [
        [
          { begin: true },
          ask("p"),
          ask("q", QUESTION),
          { until: "control_response" },
          { until: "control_response" },
          playedBack("p"),
          playedBack("q"),
          ...END,
        ],
      ],
    },
    policy({ default: "ask" }),
  );
  const resident = await rig.launch();
  await submit(resident, "Go.");
  const { question } = await rig.seen("question_asked");
  await rig.seen("permission_asked");
  const root = resident.nativeId;
  const code = (name: string) => expect.objectContaining({ code: name });
  expect(() => resident.answerPermission(root, "x", "once")).toThrow(code("REQUEST_UNKNOWN"));
  expect(() => resident.answerPermission("other", "p", "once")).toThrow(code("REQUEST_UNKNOWN"));
  expect(() => resident.answerQuestion(root, "p", [["blue"]])).toThrow(code("REQUEST_UNKNOWN"));
  expect(() => resident.answerQuestion(root, "q", [])).toThrow(code("REQUEST_INVALID"));
  resident.answerPermission(root, "p", "reject");
  expect(() => resident.answerPermission(root, "p", "once")).toThrow(code("REQUEST_CLOSED"));
  resident.answerQuestion(root, "q", [["blue"]]);
  await rig.seen("native_end");
  expect(question.items[0]?.question).toBe("Which?");
  expect(answersTo(rig).sort()).toEqual(["p deny", "q allow"]);
  expect(rig.of("permission_closed")).toMatchObject([{ reply: "reject", by: "user" }]);
  expect(rig.of("question_closed")).toMatchObject([{ reply: "answered", by: "user", result: "confirmed" }]);
  const given = rig.lines().find(({ response }) => (response as { request_id?: string })?.request_id === "q");
  expect(JSON.stringify(given)).toContain('"answers":{"Which?":"blue"}');
});

test("P14: what nobody answers is decided at its deadline: the permission as the policy says, the question rejected", async () => {
  const rig = await standInRig(
    {
      turns: [
        [
          { begin: true },
          ask("p"),
          ask("q", QUESTION),
          { until: "control_response" },
          { until: "control_response" },
          ...END,
        ],
      ],
    },
    policy({ default: "ask", askLimitMs: 200, askDefault: "allow" }),
  );
  const resident = await rig.launch();
  await submit(resident, "Go.");
  await rig.seen("native_end");
  expect(answersTo(rig).sort()).toEqual(["p allow", "q deny"]);
  expect(rig.of("permission_closed")).toMatchObject([{ by: "deadline", reply: "once" }]);
  expect(rig.of("question_closed")).toMatchObject([{ by: "deadline", reply: "rejected" }]);
});

test("law 9: a request that the CLI cancels is withdrawn: no answer goes out, and a late one is refused", async () => {
  const cancel: Step = { print: { type: "control_cancel_request", request_id: "p" } };
  const rig = await standInRig(
    { turns: [[{ begin: true }, ask("p"), cancel, { until: "interrupt" }, ...END]] },
    policy({ default: "ask" }),
  );
  const resident = await rig.launch();
  await submit(resident, "Go.");
  await rig.seen("permission_closed");
  expect(rig.of("permission_closed")).toMatchObject([{ result: "withdrawn", reply: null, by: null }]);
  expect(() => resident.answerPermission(resident.nativeId, "p", "once")).toThrow(
    expect.objectContaining({ code: "REQUEST_CLOSED" }),
  );
  await resident.abort();
  expect(answersTo(rig)).toEqual([]);
});

test("law 9: what is open at the end of the turn is closed by it, and said so", async () => {
  const rig = await standInRig(
    { turns: [[{ begin: true }, ask("p"), ask("q", QUESTION), ...END]] },
    policy({ default: "ask" }),
  );
  const resident = await rig.launch();
  await submit(resident, "Go.");
  await rig.seen("native_end");
  expect(rig.of("permission_closed")).toMatchObject([{ result: "closed_by_end" }]);
  expect(rig.of("question_closed")).toMatchObject([{ result: "closed_by_end" }]);
  resident.endTurn();
  expect(() => resident.answerPermission(resident.nativeId, "p", "once")).toThrow();
});

test("E5: a child's request comes with its ancestry, by the titles that the calls gave", async () => {
  const started = (task_id: string, tool_use_id: string, description: string): Step => ({
    print: {
      type: "system",
      subtype: "task_started",
      task_id,
      tool_use_id,
      description,
      session_id: "SESSION",
    },
  });
  const calls = (id: string, parent: string | null): Step => ({
    print: {
      type: "assistant",
      uuid: id,
      session_id: "SESSION",
      parent_tool_use_id: parent,
      message: { id, model: "m1", content: [{ type: "tool_use", id, name: "Agent", input: {} }] },
    },
  });
  const rig = await standInRig({
    turns: [
      [
        { begin: true },
        calls("c1", null),
        started("middle", "c1", "The middle"),
        calls("c2", "c1"),
        started("lowest", "c2", "The lowest"),
        ask("p", { agent_id: "lowest" }),
        { until: "control_response" },
        ...END,
      ],
    ],
  });
  const resident = await rig.launch();
  await submit(resident, "Go.");
  await rig.seen("native_end");
  expect(rig.of("permission_asked")[0]?.ancestry).toEqual([
    { session: "lowest", title: "The lowest" },
    { session: "middle", title: "The middle" },
    { session: resident.nativeId, title: "" },
  ]);
});

test("P13: stdin stays open to the end: an answer long behind the prompt still arrives", async () => {
  const rig = await standInRig(
    { turns: [[{ begin: true }, { afterMs: 1500 }, ask("p"), { until: "control_response" }, ...END]] },
    policy({ default: "ask" }),
  );
  const resident = await rig.launch();
  await submit(resident, "Go.");
  const { request } = await rig.seen("permission_asked");
  resident.answerPermission(request.session, request.request, "once");
  expect((await rig.seen("native_end")).status).toBe("completed");
  await until("the answer", () => answersTo(rig).length === 1);
});

test("law 9: a question that can't be put to anybody is rejected at once, and ids that can't be used end the turn", async () => {
  const rig = await standInRig({
    turns: [
      [
        { begin: true },
        ask("q", { tool_name: "AskUserQuestion", input: { questions: [] } }),
        { until: "control_response" },
        ask("with a blank"),
        { until: "interrupt" },
        ...END,
      ],
    ],
  });
  const resident = await rig.launch();
  await submit(resident, "Go.");
  expect(await rig.seen("permission_unresolved")).toMatchObject({ code: "PERMISSION_UNRESOLVED" });
  expect(answersTo(rig)).toEqual(["q deny"]);
  await resident.abort();
});
