/**
 * What a call of the preflight is worth, and what all of them are. Pure. `recall_passed` and `thinking_observed` are two
 * answers: thinking that was seen proves no effort, and thinking that was not seen no loss of history. The answer's text is
 * kept in either case.
 */

import type { Asked, FaultKind } from "./ask.ts";
import { CASE_NAMES, type CaseName, type PreflightCase } from "./cases.ts";
import { foreignFacts, missingFacts, missingHistoryClaim, namesOverruled } from "./detectors.ts";
import type { ShowText } from "./shown-text.ts";

type FailureKind =
  | FaultKind
  | "truncated"
  | "empty_answer"
  | "missing_fact"
  | "missing_history_claim"
  | "foreign_fact";

export interface CallReport {
  repetition: number;
  case: CaseName;
  recall_passed: boolean;
  thinking_observed: boolean;
  failures: Array<{ kind: FailureKind; detail: string }>;
  /** What the answer says, without thinking; bounded, without control characters, without the key. */
  answer: string;
  requestId: string | null;
  providerId: string | null;
  /** The model that the provider says has answered. */
  model: string | null;
  stopReason: string | null;
  status: number | null;
  firstByteMs: number | null;
  totalMs: number;
}

/** Reasons for which an answer is not whole, in the three protocols' words. */
const CUT_REASONS: ReadonlySet<string> = new Set([
  "length",
  "content_filter",
  "max_tokens",
  "max_output_tokens",
  "model_context_window_exceeded",
  "pause_turn",
  "refusal",
  "incomplete",
]);

const ANSWER_SHOWN_CHARS = 4000;
const DETAIL_SHOWN_CHARS = 500;
const ID_SHOWN_CHARS = 128;

/** @param foreign facts of the other calls of the run so far */
export function judgeCall(options: {
  asked: Asked;
  repetition: number;
  given: PreflightCase;
  foreign: readonly string[];
  show: ShowText;
}): CallReport {
  const { asked, repetition, given, show } = options;
  const { answer, status, firstByteMs, totalMs } = asked;
  const failures = failuresOf(options).map(({ kind, detail }) => ({
    kind,
    detail: show(detail, DETAIL_SHOWN_CHARS),
  }));
  const shownId = (id: string | null | undefined) => (id == null ? null : show(id, ID_SHOWN_CHARS));
  return {
    repetition,
    case: given.name,
    recall_passed: failures.length === 0,
    thinking_observed: answer?.isThinking ?? false,
    failures,
    answer: show(answer?.text ?? "", ANSWER_SHOWN_CHARS),
    requestId: shownId(asked.requestId),
    providerId: shownId(providerIdOf(answer?.providerId)),
    model: shownId(answer?.model),
    stopReason: shownId(answer?.stopReason),
    status,
    firstByteMs,
    totalMs,
  };
}

function failuresOf({
  asked,
  given,
  foreign,
}: {
  asked: Asked;
  given: PreflightCase;
  foreign: readonly string[];
}): CallReport["failures"] {
  const { answer, fault } = asked;
  // What an answer that was cut off lacks says nothing of its own.
  if (fault !== null) return [fault];
  if (answer === null) return [{ kind: "unreadable", detail: "there is no answer" }];
  if (answer.error !== null) return [{ kind: "stream_error", detail: answer.error }];
  if (!answer.isTerminal)
    return [{ kind: "truncated", detail: "the stream ended without the protocol's last word" }];
  if (answer.stopReason !== null && CUT_REASONS.has(answer.stopReason))
    return [{ kind: "truncated", detail: `the answer was cut: ${answer.stopReason}` }];
  if (answer.text.trim() === "") return [{ kind: "empty_answer", detail: "the answer has no text" }];
  return recallFailures(answer.text, given, foreign);
}

function recallFailures(
  text: string,
  { facts, overruled, hasHistory }: PreflightCase,
  foreign: readonly string[],
): CallReport["failures"] {
  const failures: CallReport["failures"] = [];
  const lacking = missingFacts(text, facts);
  if (lacking.length > 0)
    failures.push({ kind: "missing_fact", detail: `the answer lacks ${lacking.join(", ")}` });
  if (overruled !== null && namesOverruled(text, overruled))
    failures.push({
      kind: "missing_fact",
      detail: `it names ${overruled} as what holds now, which was corrected`,
    });
  const claim = hasHistory ? missingHistoryClaim(text) : null;
  if (claim !== null)
    failures.push({ kind: "missing_history_claim", detail: `it claims that history is missing: "${claim}"` });
  const strange = foreignFacts(text, foreign);
  if (strange.length > 0)
    failures.push({ kind: "foreign_fact", detail: `it knows ${strange.join(", ")} of another conversation` });
  return failures;
}

/** Ids of a known kind alone: whatever else stands there may be anything. */
function providerIdOf(id: string | null | undefined): string | null {
  return id != null && /^(?:resp_|chatcmpl-|msg_)[\w.:-]{1,120}$/.test(id) ? id : null;
}

export interface PreflightReport {
  url: string;
  protocol: string;
  model: string;
  /** Every call was made, and none failed. */
  recall_passed: boolean;
  /** Every call that was made showed thinking. */
  thinking_observed: boolean;
  plannedCalls: number;
  /** Why not all of them were made; null when they were. */
  endedEarly: "interrupted" | "given_up" | null;
  calls: CallReport[];
}

export function judgeRun(
  run: Pick<PreflightReport, "url" | "protocol" | "model" | "plannedCalls" | "endedEarly">,
  calls: CallReport[],
): PreflightReport {
  const passed = calls.filter(({ recall_passed }) => recall_passed);
  return {
    ...run,
    recall_passed: passed.length === run.plannedCalls,
    thinking_observed: calls.length > 0 && calls.every(({ thinking_observed }) => thinking_observed),
    calls,
  };
}

/** Failures after which every further call would fail alike, when the first one has them. */
export function isHopeless({ failures, status }: CallReport): boolean {
  if (failures.some(({ kind }) => kind === "unreachable")) return true;
  return status === 401 || status === 403 || status === 404 || status === 407;
}

/** One row a case: calls made, recalled, with thinking, and kinds of failures with their counts. */
export function summaryRows(calls: readonly CallReport[]): string[][] {
  return CASE_NAMES.flatMap((name) => {
    const own = calls.filter((call) => call.case === name);
    if (own.length === 0) return [];
    const kinds = own.flatMap(({ failures }) => failures.map(({ kind }) => kind));
    const counts = [...new Set(kinds)].map(
      (kind) => `${kinds.filter((each) => each === kind).length} ${kind}`,
    );
    return [
      [
        name,
        String(own.length),
        `${own.filter(({ recall_passed }) => recall_passed).length} of ${own.length}`,
        `${own.filter(({ thinking_observed }) => thinking_observed).length} of ${own.length}`,
        counts.join(", ") || "-",
      ],
    ];
  });
}
