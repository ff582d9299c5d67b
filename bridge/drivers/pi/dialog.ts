/**
 * What pi asks on its extension channel, sorted. Pure. Our extension's dialogs carry their message as JSON in the title;
 * every other dialog, and one of ours that is not whole, is a question to the user and never a permission.
 *
 *   select  with PermissionTitle    permission
 *   input   with QuestionTitle      question of the model: several items in one, answered as JSON
 *   select, confirm, input, editor  question of somebody's extension, answered in its own form
 *   notify, setStatus, …            nothing waits for a reply
 */
import * as z from "zod/mini";
import { HoldfastError } from "../../../protocol/errors.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import {
  answersProblem,
  type QuestionAnswers,
  QuestionItem,
  type QuestionRequest,
} from "../../../protocol/question.ts";
import { commandPatterns } from "../stdio/shell-commands.ts";
import { ALLOW, type Decided, type Hello, REJECT, STATUS_KEY } from "./extension/words.ts";
import type { UiRequest } from "./native-message.ts";

const PermissionTitle = z.object({
  say: z.literal("permission"),
  call: z.string(),
  tool: z.string().check(z.minLength(1)),
  patterns: z.array(z.string()),
});

const QuestionTitle = z.object({
  say: z.literal("question"),
  call: z.string(),
  items: z.array(QuestionItem).check(z.minLength(1), z.maxLength(16)),
});

/** Its pattern is a command. */
const SHELL_TOOL = "bash";

const HelloText = z.object({
  say: z.literal("hello"),
  version: z.string(),
  cwd: z.string(),
  entries: z.number(),
  isWhole: z.boolean(),
});

const DecidedText = z.object({ say: z.literal("decided"), call: z.string(), isAllowed: z.boolean() });

/** The part of a reply that depends on what was asked. */
export type DialogReply = { value: string } | { confirmed: boolean } | { cancelled: true };

/** What is written back to pi. */
export const dialogReply = (id: string, reply: DialogReply) => ({
  type: "extension_ui_response",
  id,
  ...reply,
});

export interface PermissionDialog {
  kind: "permission";
  id: string;
  call: string;
  tool: string;
  patterns: string[];
}

export interface QuestionDialog {
  kind: "question";
  id: string;
  /** The tool call that waits, where it is known. */
  call: string | null;
  items: QuestionRequest["items"];
  /** Milliseconds after which pi lets go of it by itself; null for never. */
  timeoutMs: number | null;
  /** Pi's form of the answers. Throws REQUEST_INVALID for what was not offered. */
  replyOf(answers: QuestionAnswers): DialogReply;
}

/** Null when nothing waits for a reply. */
export function readDialog(request: UiRequest): PermissionDialog | QuestionDialog | null {
  const { id, title = "", options = [] } = request;
  const timeoutMs = request.timeout ?? null;
  switch (request.method) {
    case "select": {
      const ours = parse(PermissionTitle, title);
      const isAsked = options.length === 2 && options[0] === ALLOW && options[1] === REJECT;
      if (ours !== null && isAsked) {
        const { call, tool } = ours;
        const patterns = tool === SHELL_TOOL ? ours.patterns.flatMap(commandPatterns) : ours.patterns;
        return { kind: "permission", id, call, tool, patterns };
      }
      return { kind: "question", id, call: null, timeoutMs, ...selection(title, options) };
    }
    case "confirm": {
      const item = itemOf(title, request.message ?? "", ["Yes", "No"]);
      return {
        kind: "question",
        id,
        call: null,
        timeoutMs,
        items: [item],
        replyOf: (answers) => ({ confirmed: only(answers) === "Yes" }),
      };
    }
    case "input": {
      const ours = parse(QuestionTitle, title);
      if (ours !== null) {
        const { call, items } = ours;
        const replyOf = (answers: QuestionAnswers) => ({ value: JSON.stringify(answers) });
        return { kind: "question", id, call, timeoutMs, items, replyOf };
      }
      return { kind: "question", id, call: null, timeoutMs, ...open(request.placeholder ?? "", title) };
    }
    case "editor":
      return { kind: "question", id, call: null, timeoutMs, ...open(title, request.prefill ?? "") };
    default:
      return null;
  }
}

/** As it goes to the controller. */
export function questionRequest(ask: QuestionDialog, session: string): QuestionRequest {
  return { request: ask.id, session, ancestry: [{ session, title: "" }], items: ask.items };
}

/** Throws REQUEST_INVALID. */
export function checkedReply(ask: QuestionDialog, session: string, answers: QuestionAnswers): DialogReply {
  const problem = answersProblem(questionRequest(ask, session), answers);
  if (problem !== null) throw new HoldfastError("REQUEST_INVALID", problem);
  return ask.replyOf(answers);
}

/** A status line of our extension; null for everything else. */
export function readStatus({ method, statusKey, statusText }: UiRequest): Hello | Decided | null {
  if (method !== "setStatus" || statusKey !== STATUS_KEY || statusText === undefined) return null;
  return parse(HelloText, statusText) ?? parse(DecidedText, statusText);
}

function selection(title: string, options: readonly string[]): Pick<QuestionDialog, "items" | "replyOf"> {
  const labels = options.map(line);
  const shown = itemOf("", title, options.slice(0, OPTIONS));
  // What does not fit on the wire can still be named.
  const item = { ...shown, isOpen: options.length > OPTIONS };
  return {
    items: [item],
    replyOf(answers) {
      const chosen = options[labels.indexOf(only(answers))];
      if (chosen === undefined)
        throw new HoldfastError("REQUEST_INVALID", "the answer is not among the options");
      return { value: chosen };
    },
  };
}

function open(header: string, question: string): Pick<QuestionDialog, "items" | "replyOf"> {
  return {
    items: [{ ...itemOf(header, question, []), isOpen: true }],
    replyOf: (answers) => ({ value: only(answers) }),
  };
}

/** Options on the wire (`QuestionItem`). */
const OPTIONS = 64;

function itemOf(header: string, question: string, labels: readonly string[]): QuestionItem {
  return {
    header: line(header),
    question: line(question),
    options: labels.map((label) => ({ label: line(label), description: "" })),
    isMultiple: false,
    isOpen: false,
  };
}

const line = (text: string) => text.slice(0, LIMITS.reasonChars);
const only = (answers: QuestionAnswers) => answers[0]?.[0] ?? "";

function parse<Schema extends z.ZodMiniType>(schema: Schema, text: string): z.output<Schema> | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Somebody else's text: that is the answer.
    return null;
  }
  const result = schema.safeParse(value);
  return result.success ? result.data : null;
}
