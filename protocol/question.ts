/** Questions of a CLI to its user: delivered with where they come from, answered or rejected once. */
import * as z from "zod/mini";
import { NativeId } from "./ids.ts";
import { LIMITS } from "./limits.ts";

const Line = z.string().check(z.maxLength(LIMITS.reasonChars));

/** From the asking session up to the root, each with the title that the CLI gave it. */
export const Ancestry = z.array(z.object({ session: NativeId, title: Line })).check(z.maxLength(32));
export type Ancestry = z.infer<typeof Ancestry>;

export const QuestionItem = z.object({
  header: Line,
  question: Line,
  options: z.array(z.object({ label: Line, description: Line })).check(z.maxLength(64)),
  /** Several options may be chosen. */
  isMultiple: z.boolean(),
  /** An answer that is not among the options may be given. */
  isOpen: z.boolean(),
});
export type QuestionItem = z.infer<typeof QuestionItem>;

/** Keyed by session *and* request: parent and child may use one id. */
export const QuestionRequest = z.object({
  request: NativeId,
  session: NativeId,
  ancestry: Ancestry,
  items: z.array(QuestionItem).check(z.minLength(1), z.maxLength(16)),
});
export type QuestionRequest = z.infer<typeof QuestionRequest>;

/** One list of labels or own texts an item, in the order of the items. */
export const QuestionAnswers = z.array(z.array(Line).check(z.maxLength(64))).check(z.maxLength(16));
export type QuestionAnswers = z.infer<typeof QuestionAnswers>;

/**
 * How a request of the CLI was closed. `confirmed`: the CLI itself showed that the reply took effect. `withdrawn`: the
 * CLI no longer knows it, and nothing waits for it. `closed_by_end`: its turn ended first, and it got no answer.
 */
export const RequestClosing = z.enum(["confirmed", "unresolved", "withdrawn", "closed_by_end"]);
export type RequestClosing = z.infer<typeof RequestClosing>;

/** Who decided a request; null when nobody did before it was closed. */
export const DecidedBy = z.nullable(z.enum(["policy", "user", "deadline"]));
export type DecidedBy = z.infer<typeof DecidedBy>;

/** Why the answers do not fit the question, or null when they do. */
export function answersProblem(question: QuestionRequest, answers: QuestionAnswers): string | null {
  if (answers.length !== question.items.length)
    return `${question.items.length} answers are needed, ${answers.length} came`;
  for (const [at, item] of question.items.entries()) {
    const given = answers[at] ?? [];
    if (given.length === 0) return `answer ${at + 1} is empty`;
    if (given.length > 1 && !item.isMultiple) return `answer ${at + 1} may choose one option only`;
    const strange = given.find(
      (label) => !item.isOpen && !item.options.some((option) => option.label === label),
    );
    if (strange !== undefined) return `answer ${at + 1} is not among the options`;
  }
  return null;
}
