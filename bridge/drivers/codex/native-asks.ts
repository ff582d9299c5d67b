/**
 * What codex asks of its client, as data: permissions and questions of a turn, and the reply that refuses whatever can't
 * be put to anybody. Pure. Each grants once: `acceptForSession` and rules for later are never given.
 */
import * as z from "zod/mini";
import type { PermissionReply, PermissionRequest } from "../../../protocol/permission.ts";
import type { Ancestry, QuestionAnswers, QuestionRequest } from "../../../protocol/question.ts";
import type { PipeAsk } from "../stdio/pipe-desk.ts";
import { commandPatterns } from "../stdio/shell-commands.ts";
import { ASKED } from "./launch-plan.ts";
import type { NativeRequest, RequestId } from "./native-message.ts";
import { commandPattern } from "./shell-words.ts";

const inTurn = { threadId: z.string(), turnId: z.string(), itemId: z.string() };

const CommandParams = z.object({
  ...inTurn,
  kind: z.optional(z.nullable(z.string())),
  command: z.optional(z.nullable(z.string())),
});
const PatchParams = z.object({ ...inTurn, grantRoot: z.optional(z.nullable(z.string())) });
const RightsParams = z.object({ ...inTurn, permissions: z.record(z.string(), z.unknown()) });
const QuestionParams = z.object({
  ...inTurn,
  questions: z.array(
    z.object({
      id: z.string(),
      header: z.string(),
      question: z.string(),
      isOther: z.optional(z.nullable(z.boolean())),
      options: z.optional(z.nullable(z.array(z.object({ label: z.string(), description: z.string() })))),
    }),
  ),
});

interface NativeAsk extends PipeAsk {
  native: RequestId;
  turn: string;
  /** The item of the call that asks. */
  call: string;
}

export interface PermissionAsk extends NativeAsk {
  kind: "command" | "patch" | "rights";
  permission: string;
  /** Whole, as the policy must see them. */
  patterns: string[];
  /** The rights that are asked for, as codex wants them back. */
  rights: Record<string, unknown>;
}

export interface QuestionAsk extends NativeAsk {
  kind: "question";
  questions: z.infer<typeof QuestionParams>["questions"];
}

export type CodexAsk = PermissionAsk | QuestionAsk;

/** Null rejects. */
export type QuestionReply = QuestionAnswers | null;

/** Questions of one request that fit on the wire. */
const QUESTION_ITEMS = 16;

/** What is asked; null for what nobody can be asked. A patch has its paths added by whoever saw its item. */
export function readAsk({ id: native, method, params }: NativeRequest): CodexAsk | null {
  const common = { id: String(native), native };
  if (method === "item/commandExecution/requestApproval") {
    const read = CommandParams.safeParse(params);
    if (!read.success) return null;
    const isInput = read.data.kind === "writeStdin";
    const patterns = read.data.command == null ? [] : commandPatterns(commandPattern(read.data.command));
    return {
      ...common,
      ...place(read.data),
      kind: "command",
      permission: isInput ? "write_stdin" : ASKED.command,
      patterns,
      rights: {},
    };
  }
  if (method === "item/fileChange/requestApproval") {
    const read = PatchParams.safeParse(params);
    if (!read.success) return null;
    const { grantRoot } = read.data;
    const patterns = grantRoot == null ? [] : [grantRoot];
    return { ...common, ...place(read.data), kind: "patch", permission: ASKED.patch, patterns, rights: {} };
  }
  if (method === "item/permissions/requestApproval") {
    const read = RightsParams.safeParse(params);
    if (!read.success) return null;
    const { permissions: rights } = read.data;
    return { ...common, ...place(read.data), kind: "rights", permission: ASKED.rights, patterns: [], rights };
  }
  if (method === "item/tool/requestUserInput") {
    const read = QuestionParams.safeParse(params);
    if (!read.success) return null;
    return { ...common, ...place(read.data), kind: "question", questions: read.data.questions };
  }
  return null;
}

function place({ threadId, turnId, itemId }: { threadId: string; turnId: string; itemId: string }) {
  return { session: threadId, turn: turnId, call: itemId };
}

export function permissionResult({ kind, rights }: PermissionAsk, reply: PermissionReply): unknown {
  if (kind === "rights") return { permissions: reply === "once" ? rights : {}, scope: "turn" };
  return { decision: reply === "once" ? "accept" : "decline" };
}

/** Codex takes answers by the question's own id; none at all is how a question is rejected. */
export function questionResult({ questions }: QuestionAsk, reply: QuestionReply): unknown {
  const answers = (reply ?? []).flatMap((given, at) => {
    const id = questions[at]?.id;
    return id === undefined ? [] : [[id, { answers: given }] as const];
  });
  return { answers: Object.fromEntries(answers) };
}

/** The reply that refuses, for requests of nobody's turn; null for one that only an error answers. */
export function refusalOf({ method }: NativeRequest): unknown {
  switch (method) {
    case "item/commandExecution/requestApproval":
    case "item/fileChange/requestApproval":
      return { decision: "decline" };
    case "item/permissions/requestApproval":
      return { permissions: {}, scope: "turn" };
    case "item/tool/requestUserInput":
      return { answers: {} };
    case "mcpServer/elicitation/request":
      return { action: "decline", content: null, _meta: null };
    default:
      return null;
  }
}

/** A question that has nothing to answer, or more than fits on the wire, can't be put to the user. */
export function canBePut({ questions }: QuestionAsk): boolean {
  return questions.length > 0 && questions.length <= QUESTION_ITEMS;
}

/** As it goes to the controller, cut to the bounds of the wire. */
export function permissionRequest({ id, session, permission, patterns }: PermissionAsk): PermissionRequest {
  return {
    request: id,
    session,
    permission,
    patterns: patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
  };
}

export function questionRequest(ask: QuestionAsk, ancestry: Ancestry): QuestionRequest {
  const line = (text: string) => text.slice(0, 2000);
  const nothing = [{ id: "", header: "", question: "", options: [], isOther: false }];
  const questions = ask.questions.length > 0 ? ask.questions : nothing;
  return {
    request: ask.id,
    session: ask.session,
    ancestry,
    items: questions.slice(0, QUESTION_ITEMS).map(({ header, question, options, isOther }) => ({
      header: line(header),
      question: line(question),
      options: (options ?? [])
        .slice(0, 64)
        .map(({ label, description }) => ({ label: line(label), description: line(description) })),
      isMultiple: false,
      // Without options there is nothing but an answer of one's own.
      isOpen: isOther === true || (options ?? []).length === 0,
    })),
  };
}
