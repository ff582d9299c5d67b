import { expect, test } from "vitest";
import {
  controlAnswer,
  controlRefusal,
  decideAsk,
  deniedBy,
  isAskable,
  isQuestion,
  permissionAnswer,
  permissionOf,
  permissionRequest,
  questionAnswer,
  questionRequest,
  type ToolAsk,
  toolAsk,
} from "../../../../bridge/drivers/claude/asks.ts";
import { PermissionRequest } from "../../../../protocol/permission.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { QuestionRequest } from "../../../../protocol/question.ts";

const ask = (tool: string, input: Record<string, unknown>): ToolAsk => ({
  id: "r1",
  session: "root",
  tool,
  call: "toolu_1",
  input,
});

test("a request of a tool is the root's, or its agent's; other kinds are none", () => {
  const request = {
    subtype: "can_use_tool",
    tool_name: "Bash",
    tool_use_id: "toolu_1",
    input: { command: "ls" },
  };
  const message = { type: "control_request" as const, request_id: "r1" };
  expect(toolAsk({ ...message, request }, "root")).toEqual(ask("Bash", { command: "ls" }));
  expect(toolAsk({ ...message, request: { ...request, agent_id: "child" } }, "root")).toMatchObject({
    session: "child",
  });
  expect(toolAsk({ ...message, request: { subtype: "hook_callback" } }, "root")).toBeNull();
});

test.each<[string, Record<string, unknown>, string[]]>([
  ["Bash", { command: "git push", description: "x" }, ["git push"]],
  ["Read", { file_path: "/place/a.txt" }, ["/place/a.txt"]],
  ["Write", { file_path: "/place/../etc/passwd" }, ["/etc/passwd"]],
  ["Edit", { file_path: "b/./c.txt" }, ["/place/b/c.txt"]],
  ["WebFetch", { url: "http://a.example/" }, ["http://a.example/"]],
  ["Agent", { prompt: "p", subagent_type: "Plan" }, ["Plan"]],
  ["TaskCreate", { subject: "s" }, []],
  ["Bash", { command: 7 }, []],
])("the permission is the tool's own name, its patterns what %s acts on: %j", (tool, input, patterns) => {
  expect(permissionOf(ask(tool, input), "/place")).toEqual({ permission: tool, patterns });
});

test("law 13: what goes to the controller fits the wire, and the policy sees it whole", () => {
  const long = ask("B".repeat(300), { command: "x".repeat(5000) });
  expect(PermissionRequest.safeParse(permissionRequest(long, "/place")).success).toBe(true);
  expect(permissionOf(long, "/place").patterns[0]).toHaveLength(5000);
});

const QUESTIONS = {
  questions: [
    {
      question: "Which colour?",
      header: "Colour",
      multiSelect: true,
      options: [
        { label: "blue", description: "sea" },
        { label: "green", description: "kelp" },
      ],
    },
    { question: "And why?", header: "Why", multiSelect: false, options: [] },
  ],
};

test("E2: a question is read, and takes several labels where it says so, and any text", () => {
  const question = ask("AskUserQuestion", QUESTIONS);
  expect(isQuestion(question)).toBe(true);
  expect(isAskable(question)).toBe(true);
  const request = questionRequest(question, [{ session: "root", title: "" }]);
  expect(request.items).toMatchObject([
    { header: "Colour", question: "Which colour?", isMultiple: true, isOpen: true },
    { header: "Why", question: "And why?", isMultiple: false, isOpen: true, options: [] },
  ]);
  expect(questionAnswer(question, [["blue", "green"], ["because"]])).toEqual({
    behavior: "allow",
    updatedInput: { ...QUESTIONS, answers: { "Which colour?": "blue, green", "And why?": "because" } },
  });
});

test.each([
  {},
  { questions: "no" },
  { questions: [] },
  { questions: Array.from({ length: 17 }, () => ({})) },
])("a question that can't be put to anybody still fits the wire: %#", (input) => {
  const question = ask("AskUserQuestion", input);
  expect(isAskable(question)).toBe(false);
  const ancestry = [{ session: "root", title: "" }];
  expect(QuestionRequest.safeParse(questionRequest(question, ancestry)).success).toBe(true);
});

test("an answer hands the input back as it came, a refusal says who refused", () => {
  const shell = ask("Bash", { command: "ls", extra: [1] });
  expect(permissionAnswer(shell, "once", "user")).toEqual({ behavior: "allow", updatedInput: shell.input });
  const refusals = (["policy", "user", "deadline", "unasked"] as const).map((by) => deniedBy(by));
  for (const each of refusals) expect(each).toMatchObject({ behavior: "deny", message: expect.any(String) });
  expect(new Set(refusals.map(({ message }) => message)).size).toBe(4);
  expect(permissionAnswer(shell, "reject", "user")).toEqual(deniedBy("user"));
});

test("answers go to their request, and what is not known is refused", () => {
  expect(controlAnswer("r1", { behavior: "allow" })).toEqual({
    type: "control_response",
    response: { subtype: "success", request_id: "r1", response: { behavior: "allow" } },
  });
  expect(controlRefusal("r1", "news")).toMatchObject({
    response: { subtype: "error", request_id: "r1", error: "not supported: news" },
  });
});

test.each([
  ["Task", "Agent"],
  ["KillShell", "TaskStop"],
  ["BashOutput", "TaskOutput"],
])("a rule for %s is one for %s: the CLI takes either word, and names the second", (word, own) => {
  const policy: MemberPolicy = { ...ALLOW_ALL, rules: [{ tool: word, pattern: "*", action: "deny" }] };
  expect(decideAsk(policy, ask(own, {}), "/place")).toBe("deny");
  expect(decideAsk(policy, ask(word, {}), "/place")).toBe("deny");
  expect(decideAsk(policy, ask("Bash", {}), "/place")).toBe("allow");
});

test("a rule for a server of tools is one for each of its tools, as in the CLI's own settings, and for no other's", () => {
  const policy: MemberPolicy = { ...ALLOW_ALL, rules: [{ tool: "mcp__x", pattern: "*", action: "deny" }] };
  expect(decideAsk(policy, ask("mcp__x__harm", {}), "/place")).toBe("deny");
  expect(decideAsk(policy, ask("mcp__xy__harm", {}), "/place")).toBe("allow");
  const some: MemberPolicy = { ...ALLOW_ALL, rules: [{ tool: "mcp__x__a", pattern: "*", action: "deny" }] };
  expect(decideAsk(some, ask("mcp__x__a__b", {}), "/place")).toBe("allow");
});
