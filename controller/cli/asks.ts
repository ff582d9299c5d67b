/**
 * What the CLI asks its user, asked in the terminal: permissions that the policy leaves to the user, and native questions.
 * One at a time; a request that is closed meanwhile (its limit, the turn's end) is taken away from the user.
 */
import { asHoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { QuestionAnswers, QuestionItem, QuestionRequest } from "../../protocol/question.ts";
import { keyOf, type UserRequest } from "../open-requests.ts";
import { type Output, oneLine } from "./output.ts";
import { byWhom } from "./turn-display.ts";

export interface AnswerPorts {
  permission(turn: string, session: string, request: string, reply: "once" | "reject"): Promise<void>;
  question(turn: string, session: string, request: string, answers: QuestionAnswers | null): Promise<void>;
}

export interface Asker {
  /** Every event of the turn that is shown. */
  take(event: ControlEvent): void;
  /** The turn has ended: nothing is asked any more. */
  end(): void;
}

/** @param nextLine the user's next line, or null when there is none or the wait was given up */
export function createAsker(options: {
  ports: AnswerPorts;
  output: Output;
  nextLine(signal: AbortSignal): Promise<string | null>;
}): Asker {
  const { ports, output, nextLine } = options;
  const waiting = new Map<string, { request: UserRequest; given: AbortController }>();
  const seen = new Set<string>();
  let isAsking = false;

  async function askAll(): Promise<void> {
    if (isAsking) return;
    isAsking = true;
    try {
      for (;;) {
        const [first] = waiting;
        if (first === undefined) return;
        const [key, { request, given }] = first;
        await askOne(request, given.signal);
        waiting.delete(key);
      }
    } finally {
      isAsking = false;
    }
  }

  async function askOne(request: UserRequest, signal: AbortSignal): Promise<void> {
    try {
      if (request.type === "turn.permission_asked") await askPermission(request, signal);
      else await askQuestion(request.turn, request.question, signal);
    } catch (error) {
      const { code, message } = asHoldfastError(error);
      output.progress(`holdfast: the answer was not delivered: ${oneLine(message)} [${code}]`);
    }
  }

  async function askPermission(
    event: Extract<UserRequest, { type: "turn.permission_asked" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { request, ancestry, turn } = event;
    output.endLine();
    output.progress(
      oneLine(`may it use ${request.permission}${byWhom(ancestry)}? ${request.patterns.join(", ")}`),
    );
    for (;;) {
      output.progress("[y]es, once / [n]o");
      const line = await nextLine(signal);
      if (line === null) return;
      const reply = replyOf(line);
      if (reply !== null) return ports.permission(turn, request.session, request.request, reply);
    }
  }

  async function askQuestion(turn: string, question: QuestionRequest, signal: AbortSignal): Promise<void> {
    const answers: string[][] = [];
    output.endLine();
    for (const item of question.items) {
      output.progress(oneLine(`${item.question}${byWhom(question.ancestry)}`));
      for (const [at, { label, description }] of item.options.entries()) {
        output.progress(oneLine(`  ${at + 1}  ${label}${description === "" ? "" : `  (${description})`}`));
      }
      const given = await askItem(item, signal);
      if (given === "gone") return;
      if (given === "rejected") return ports.question(turn, question.session, question.request, null);
      answers.push(given);
    }
    await ports.question(turn, question.session, question.request, answers);
  }

  async function askItem(item: QuestionItem, signal: AbortSignal): Promise<string[] | "rejected" | "gone"> {
    const several = item.isMultiple ? "one or more numbers, with commas between them" : "a number";
    for (;;) {
      output.progress(`${several}${item.isOpen ? ", or a text of your own" : ""}; - rejects the question`);
      const line = await nextLine(signal);
      if (line === null) return "gone";
      if (line.trim() === "-") return "rejected";
      const chosen = answersOf(item, line);
      if (chosen !== null) return chosen;
    }
  }

  return {
    take(event) {
      if (event.type === "turn.permission_asked") {
        if (event.action === "ask") add(keyOf("permission", event.request), event);
      } else if (event.type === "turn.question_asked") add(keyOf("question", event.question), event);
      else if (event.type === "turn.permission_closed") giveUp(keyOf("permission", event));
      else if (event.type === "turn.question_closed") giveUp(keyOf("question", event));
    },
    end() {
      for (const key of [...waiting.keys()]) giveUp(key);
    },
  };

  /** After a restart a request is both listed and, perhaps, shown as an event: it is asked once. */
  function add(key: string, request: UserRequest): void {
    if (seen.has(key)) return;
    seen.add(key);
    waiting.set(key, { request, given: new AbortController() });
    void askAll();
  }

  function giveUp(key: string): void {
    waiting.get(key)?.given.abort();
    waiting.delete(key);
  }
}

/** Null when the line is neither. */
export function replyOf(line: string): "once" | "reject" | null {
  const word = line.trim().toLowerCase();
  if (word === "y" || word === "yes") return "once";
  if (word === "n" || word === "no") return "reject";
  return null;
}

/** The labels that a line chooses, by number or by name; a text of the user's own where it is allowed; else null. */
export function answersOf(item: QuestionItem, line: string): string[] | null {
  const text = line.trim();
  if (text === "") return null;
  const words = text.split(",").map((word) => word.trim());
  const labels = words.map((word) => {
    const byNumber = /^\d+$/.test(word) ? item.options[Number(word) - 1]?.label : undefined;
    return byNumber ?? item.options.find(({ label }) => label.toLowerCase() === word.toLowerCase())?.label;
  });
  if (labels.every((label) => label !== undefined) && (item.isMultiple || labels.length === 1)) return labels;
  return item.isOpen ? [text] : null;
}
