/**
 * What Claude Code asks on its pipe (`can_use_tool`): read into permissions and questions, and the replies in its own form.
 * Pure. Facts: `claude-codex-pi`, 1.4.
 */
import { resolve } from "node:path/posix";
import type { PermissionReply, PermissionRequest } from "../../../protocol/permission.ts";
import {
  decidePermission,
  type MemberPolicy,
  type PermissionAction,
} from "../../../protocol/permission-policy.ts";
import type { Ancestry, DecidedBy, QuestionAnswers, QuestionRequest } from "../../../protocol/question.ts";
import type { PipeAsk } from "../stdio/pipe-desk.ts";
import { commandPatterns } from "../stdio/shell-commands.ts";
import type { NativeControlRequest } from "./native-message.ts";

const QUESTION_TOOL = "AskUserQuestion";
/** Items of one question that fit on the wire. A question without any, or with more, can't be put to the user. */
const QUESTION_ITEMS = 16;

/** The request that it is, whole: what the record cuts off would be a way around the policy's rules. */
export interface ToolAsk extends PipeAsk {
  tool: string;
  call: string;
  input: Record<string, unknown>;
}

/** Null: no request of a tool, or one of a kind that is not known. */
export function toolAsk({ request_id, request }: NativeControlRequest, root: string): ToolAsk | null {
  if (request.subtype !== "can_use_tool" || request.tool_name === undefined) return null;
  return {
    id: request_id,
    session: request.agent_id ?? root,
    tool: request.tool_name,
    call: request.tool_use_id ?? "",
    input: request.input ?? {},
  };
}

export const isQuestion = ({ tool }: ToolAsk) => tool === QUESTION_TOOL;

/** What a tool acts on, by the name of the argument. Paths are made absolute: `..` must not lead around a rule. */
const ACTS_ON: ReadonlyArray<readonly [name: string, isPath: boolean]> = [
  ["command", false],
  ["file_path", true],
  ["notebook_path", true],
  ["path", true],
  ["url", false],
  ["query", false],
  ["skill", false],
  ["subagent_type", false],
];

/** The permission word is the tool's own name; without anything that it acts on there is no pattern. */
export function permissionOf({ tool, input }: ToolAsk, directory: string) {
  const patterns = ACTS_ON.flatMap(([name, isPath]) => {
    const value = input[name];
    if (typeof value !== "string" || value === "") return [];
    if (name === "command") return commandPatterns(value);
    return [isPath ? resolve(directory, value) : value];
  });
  return { permission: tool, patterns };
}

/**
 * Words that the CLI takes for tools of another name, from the model and in its settings: it asks for a rule's `Task`, and
 * names `Agent`. All words of both pinned versions.
 */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["Task", "Agent"],
  ["KillShell", "TaskStop"],
  ["KillBash", "TaskStop"],
  ["AgentOutputTool", "TaskOutput"],
  ["BashOutputTool", "TaskOutput"],
  ["AgentOutput", "TaskOutput"],
  ["BashOutput", "TaskOutput"],
  ["ListPeers", "ListAgents"],
  ["Brief", "SendUserMessage"],
  ["ListMcpResources", "ListMcpResourcesTool"],
  ["ReadMcpResource", "ReadMcpResourceTool"],
  ["ReadMcpResourceDir", "ReadMcpResourceDirTool"],
  ["ProposeGoal", "SetGoal"],
]);

/** All tools of one MCP server, as the CLI's settings name them. */
const SERVER = /^mcp__(?:(?!__).)+$/;

const ownWord = (tool: string) => ALIASES.get(tool) ?? tool;

/** What the policy says, whichever of a tool's words its rules use. */
export function decideAsk(policy: MemberPolicy, ask: ToolAsk, directory: string): PermissionAction {
  const { permission, patterns } = permissionOf(ask, directory);
  const own = ownWord(permission);
  const isMeant = (tool: string) =>
    ownWord(tool) === own || (SERVER.test(tool) && own.startsWith(`${tool}__`));
  const rules = policy.rules.map((rule) => (isMeant(rule.tool) ? { ...rule, tool: own } : rule));
  return decidePermission({ ...policy, rules }, { permission: own, patterns });
}

/** As it goes to the controller, cut to the bounds of the wire. */
export function permissionRequest(ask: ToolAsk, directory: string): PermissionRequest {
  const { permission, patterns } = permissionOf(ask, directory);
  return {
    request: ask.id,
    session: ask.session,
    permission: permission.slice(0, 128),
    patterns: patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
  };
}

interface QuestionItem {
  question: string;
  header: string;
  isMultiple: boolean;
  options: Array<{ label: string; description: string }>;
}

function itemsOf({ input }: ToolAsk): QuestionItem[] {
  return objects(input.questions).map((item) => ({
    question: string(item.question),
    header: string(item.header),
    isMultiple: item.multiSelect === true,
    options: objects(item.options).map(({ label, description }) => ({
      label: string(label),
      description: string(description),
    })),
  }));
}

/** Whether it can be put to a user at all. */
export function isAskable(ask: ToolAsk): boolean {
  const { length } = itemsOf(ask);
  return length > 0 && length <= QUESTION_ITEMS;
}

/** As it goes to the controller; what exceeds the bounds of the wire is cut. */
export function questionRequest(ask: ToolAsk, ancestry: Ancestry): QuestionRequest {
  const line = (text: string) => text.slice(0, 2000);
  const items = itemsOf(ask);
  const shown = items.length > 0 ? items : [{ question: "", header: "", isMultiple: false, options: [] }];
  return {
    request: ask.id,
    session: ask.session,
    ancestry,
    items: shown.slice(0, QUESTION_ITEMS).map(({ question, header, isMultiple, options }) => ({
      question: line(question),
      header: line(header),
      options: options
        .slice(0, 64)
        .map(({ label, description }) => ({ label: line(label), description: line(description) })),
      isMultiple,
      // It takes any text as an answer (measured).
      isOpen: true,
    })),
  };
}

function objects(value: unknown): Array<Record<string, unknown>> {
  const list: unknown[] = Array.isArray(value) ? value : [];
  return list.flatMap((each) =>
    typeof each === "object" && each !== null ? [each as Record<string, unknown>] : [],
  );
}

const string = (value: unknown) => (typeof value === "string" ? value : "");

/** The model reads it as the tool's result. */
const DENIED: Readonly<Record<Exclude<DecidedBy, null> | "unasked", string>> = {
  policy: "The policy of this session does not allow it.",
  user: "The user rejected it.",
  deadline: "Nobody answered in time.",
  unasked: "Nobody can be asked now.",
};

export function deniedBy(by: keyof typeof DENIED): Record<string, unknown> {
  return { behavior: "deny", message: DENIED[by] };
}

export function permissionAnswer(
  ask: ToolAsk,
  reply: PermissionReply,
  by: keyof typeof DENIED,
): Record<string, unknown> {
  return reply === "once" ? { behavior: "allow", updatedInput: ask.input } : deniedBy(by);
}

/** Answers go by the question's own text, several labels in one string. */
export function questionAnswer(ask: ToolAsk, answers: QuestionAnswers): Record<string, unknown> {
  const given = itemsOf(ask).map(({ question }, at) => [question, (answers[at] ?? []).join(", ")] as const);
  return {
    behavior: "allow",
    updatedInput: { ...ask.input, answers: Object.fromEntries(given) },
  };
}

export function controlAnswer(id: string, response: Record<string, unknown>): unknown {
  return { type: "control_response", response: { subtype: "success", request_id: id, response } };
}

/** For a request of a kind that we do not know: it must not wait for ever. */
export function controlRefusal(id: string, subtype: string): unknown {
  const error = `not supported: ${subtype.slice(0, 100)}`;
  return { type: "control_response", response: { subtype: "error", request_id: id, error } };
}
