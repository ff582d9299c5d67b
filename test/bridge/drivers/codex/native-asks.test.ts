import { expect, test } from "vitest";
import {
  canBePut,
  type PermissionAsk,
  permissionRequest,
  permissionResult,
  type QuestionAsk,
  questionRequest,
  questionResult,
  readAsk,
  refusalOf,
} from "../../../../bridge/drivers/codex/native-asks.ts";
import { PermissionRequest } from "../../../../protocol/permission.ts";
import { QuestionRequest } from "../../../../protocol/question.ts";
import { turnOf } from "./captured.ts";

const place = { threadId: "t", turnId: "u", itemId: "i" };
const request = (method: string, params: object) => ({ id: 7, method, params: { ...place, ...params } });
const COMMAND = "item/commandExecution/requestApproval";
const PATCH = "item/fileChange/requestApproval";
const RIGHTS = "item/permissions/requestApproval";
const QUESTION = "item/tool/requestUserInput";

const permission = (method: string, params: object) => readAsk(request(method, params)) as PermissionAsk;

test("recorded requests are read: command, patch and question", () => {
  const recorded = ["Allow it.", "Patch it.", "Ask me."].flatMap((text) => {
    const [first] = turnOf("asks", text).requests;
    return first === undefined ? [] : [readAsk(first)];
  });
  expect(recorded).toMatchObject([
    {
      kind: "command",
      id: "0",
      permission: "exec_command",
      patterns: [`ls; echo "it's"`, "ls", `echo "it's"`],
    },
    { kind: "patch", id: "2", permission: "apply_patch", patterns: [] },
    { kind: "question", id: "3", questions: [{ id: "colour", isOther: true }] },
  ]);
});

test("a command is judged by what the model wrote; one that is not named, as any", () => {
  expect(permission(COMMAND, { command: "/bin/bash -lc 'a b'" })).toMatchObject({
    permission: "exec_command",
    patterns: ["a b"],
    session: "t",
    turn: "u",
    call: "i",
  });
  expect(permission(COMMAND, { command: null, networkApprovalContext: {} }).patterns).toEqual([]);
  expect(permission(COMMAND, { kind: "writeStdin", command: "cat" }).permission).toBe("write_stdin");
});

test("what is allowed is allowed once, and never for longer", () => {
  const command = permission(COMMAND, { command: "ls" });
  const patch = permission(PATCH, { grantRoot: "/w" });
  expect(patch.patterns).toEqual(["/w"]);
  for (const ask of [command, patch]) {
    expect(permissionResult(ask, "once")).toEqual({ decision: "accept" });
    expect(permissionResult(ask, "reject")).toEqual({ decision: "decline" });
  }
  const rights = permission(RIGHTS, { reason: "please", permissions: { network: { enabled: true } } });
  expect(rights).toMatchObject({ permission: "request_permissions", patterns: [] });
  expect(permissionResult(rights, "once")).toEqual({
    permissions: { network: { enabled: true } },
    scope: "turn",
  });
  expect(permissionResult(rights, "reject")).toEqual({ permissions: {}, scope: "turn" });
});

const options = [{ label: "blue", description: "b" }];
const question = (questions: unknown[]) => readAsk(request(QUESTION, { questions })) as QuestionAsk;

test("answers go back under each question's own id, and a rejection has none", () => {
  const ask = question([
    { id: "a", header: "A", question: "A?", options },
    { id: "b", header: "B", question: "B?", options: null },
  ]);
  expect(questionResult(ask, [["blue"], ["my own"]])).toEqual({
    answers: { a: { answers: ["blue"] }, b: { answers: ["my own"] } },
  });
  expect(questionResult(ask, [["blue"], ["x"], ["too many"]])).toEqual({
    answers: { a: { answers: ["blue"] }, b: { answers: ["x"] } },
  });
  expect(questionResult(ask, null)).toEqual({ answers: {} });
});

test("a question is open when codex says so, or when it has no options", () => {
  const items = questionRequest(
    question([
      { id: "a", header: "A", question: "A?", options, isOther: true },
      { id: "b", header: "B", question: "B?", options, isOther: false },
      { id: "c", header: "C", question: "C?", options: null, isSecret: true },
    ]),
    [],
  ).items;
  expect(items.map(({ isOpen }) => isOpen)).toEqual([true, false, true]);
});

test("what goes to the controller fits its wire, however large it was", () => {
  const long = "x".repeat(10_000);
  const ask = {
    ...permission(COMMAND, { command: long }),
    patterns: Array.from({ length: 100 }, () => long),
  };
  expect(PermissionRequest.safeParse(permissionRequest(ask)).success).toBe(true);
  const many = question(
    Array.from({ length: 40 }, (_, at) => ({
      id: String(at),
      header: long,
      question: long,
      options: Array.from({ length: 100 }, () => ({ label: long, description: long })),
    })),
  );
  expect(canBePut(many)).toBe(false);
  expect(QuestionRequest.safeParse(questionRequest(many, [])).success).toBe(true);
  const none = question([]);
  expect(canBePut(none)).toBe(false);
  expect(QuestionRequest.safeParse(questionRequest(none, [])).success).toBe(true);
});

test.each([
  ["an unknown method", request("item/new/requestApproval", {})],
  ["a dynamic tool", request("item/tool/call", {})],
  ["no place", { id: 7, method: COMMAND, params: {} }],
  ["no rights", request(RIGHTS, { permissions: "all" })],
  ["no questions", request(QUESTION, { questions: "what?" })],
  ["nothing", { id: 7, method: PATCH, params: null }],
])("what nobody can be asked is no ask: %s", (_, given) => {
  expect(readAsk(given)).toBeNull();
});

test("each kind of request has a refusal of its own form, and an unknown one an error", () => {
  const refusal = (method: string) => refusalOf({ id: 1, method, params: {} });
  expect(refusal(COMMAND)).toEqual({ decision: "decline" });
  expect(refusal(PATCH)).toEqual({ decision: "decline" });
  expect(refusal(RIGHTS)).toEqual({ permissions: {}, scope: "turn" });
  expect(refusal(QUESTION)).toEqual({ answers: {} });
  expect(refusal("mcpServer/elicitation/request")).toEqual({ action: "decline", content: null, _meta: null });
  expect(refusal("item/tool/call")).toBeNull();
});
