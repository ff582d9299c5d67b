import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import type { Asked } from "../../../controller/preflight/ask.ts";
import { casesOf } from "../../../controller/preflight/cases.ts";
import { showWithout } from "../../../controller/preflight/shown-text.ts";
import {
  type CallReport,
  isHopeless,
  judgeCall,
  judgeRun,
  summaryRows,
} from "../../../controller/preflight/verdict.ts";

const [greeting, , , update, noHistory] = casesOf(randomInt);
const KEY = "sk-key-0123456789";

const ANSWER = {
  text: "",
  isThinking: true,
  isTerminal: true,
  stopReason: "stop",
  error: null,
  providerId: "chatcmpl-1",
  model: "m1",
};

function asked(answer: Partial<typeof ANSWER> | null, more: Partial<Asked> = {}): Asked {
  return {
    status: 200,
    requestId: "req-1",
    answer: answer === null ? null : ({ ...ANSWER, ...answer } as NonNullable<Asked["answer"]>),
    fault: null,
    firstByteMs: 5,
    totalMs: 9,
    ...more,
  };
}

function judge(of: Asked, given = greeting, foreign: string[] = []): CallReport {
  if (given === undefined) throw new Error("there is no such case");
  return judgeCall({ asked: of, repetition: 1, given, foreign, show: showWithout(KEY) });
}

const kinds = ({ failures }: CallReport) => failures.map(({ kind }) => kind);
const fact = greeting?.facts[0] ?? "";

test("a right answer passes, with its ids and its text", () => {
  expect(judge(asked({ text: `It is ${fact}.` }))).toEqual({
    repetition: 1,
    case: "greeting",
    recall_passed: true,
    thinking_observed: true,
    failures: [],
    answer: `It is ${fact}.`,
    requestId: "req-1",
    providerId: "chatcmpl-1",
    model: "m1",
    stopReason: "stop",
    status: 200,
    firstByteMs: 5,
    totalMs: 9,
  });
});

test("F4, F6: recall and thinking are two answers: neither changes the other, and the text is kept", () => {
  const seen = [true, false].flatMap((isThinking) =>
    [`It is ${fact}.`, "It is nothing."].map((text) => judge(asked({ text, isThinking }))),
  );
  expect(
    seen.map(({ recall_passed, thinking_observed, answer }) => [recall_passed, thinking_observed, answer]),
  ).toEqual([
    [true, true, `It is ${fact}.`],
    [false, true, "It is nothing."],
    [true, false, `It is ${fact}.`],
    [false, false, "It is nothing."],
  ]);
});

test("each reason to fail has its kind, and what was cut off is not judged by its facts", () => {
  const fault = { kind: "http_status" as const, detail: "status 500" };
  expect(kinds(judge(asked(null, { status: 500, fault })))).toEqual(["http_status"]);
  expect(kinds(judge(asked({ text: "half" }, { fault: { kind: "stream_error", detail: "x" } })))).toEqual([
    "stream_error",
  ]);
  expect(kinds(judge(asked({ text: "half", error: "x" } as object)))).toEqual(["stream_error"]);
  expect(kinds(judge(asked({ text: `It is ${fact}`, isTerminal: false })))).toEqual(["truncated"]);
  for (const stopReason of ["length", "max_tokens", "max_output_tokens", "content_filter", "refusal"])
    expect(kinds(judge(asked({ text: `It is ${fact}`, stopReason })))).toEqual(["truncated"]);
  expect(kinds(judge(asked({ text: " \n" })))).toEqual(["empty_answer"]);
  expect(kinds(judge(asked({ text: "It is nothing." })))).toEqual(["missing_fact"]);
  expect(kinds(judge(asked({ text: "This is the start of our conversation." })))).toEqual([
    "missing_fact",
    "missing_history_claim",
  ]);
  expect(kinds(judge(asked({ text: `This is the start of our conversation, ${fact}.` })))).toEqual([
    "missing_history_claim",
  ]);
  expect(kinds(judge(asked(null)))).toEqual(["unreadable"]);
});

test("after the update the new fact must hold now, and the old one must be known", () => {
  const [now = "", before = ""] = update?.facts ?? [];
  expect(kinds(judge(asked({ text: `now: ${now}\nbefore: ${before}` }), update))).toEqual([]);
  expect(kinds(judge(asked({ text: `now: ${before}\nbefore: ${now}` }), update))).toEqual(["missing_fact"]);
  expect(kinds(judge(asked({ text: `now: ${now}` }), update))).toEqual(["missing_fact"]);
});

test("without history a claim that there is none is right, and a fact of another call is not", () => {
  const text = "You have not told me any code word.";
  expect(kinds(judge(asked({ text }), noHistory, [fact]))).toEqual([]);
  expect(kinds(judge(asked({ text: `It was ${fact}.` }), noHistory, [fact]))).toEqual(["foreign_fact"]);
});

test("F4: nothing that is shown holds the key, an id of an unknown kind, or more than its bound", () => {
  const strange = asked({
    text: `${fact} ${KEY} ${"x".repeat(9000)}`,
    providerId: "Bearer x",
    model: KEY,
    stopReason: KEY,
  });
  const report = judge({ ...strange, requestId: KEY });
  expect(JSON.stringify(report)).not.toContain(KEY);
  expect(report).toMatchObject({ providerId: null, model: "[key]", requestId: "[key]" });
  expect(report.answer).toHaveLength(4000);
  const fault = { kind: "http_status" as const, detail: `status 401: ${KEY}${"x".repeat(9000)}` };
  const [failure] = judge(asked(null, { fault })).failures;
  expect(failure?.detail).toHaveLength(500);
  expect(failure?.detail).toContain("status 401: [key]");
});

const RUN = { url: "http://h/v1", protocol: "responses", model: "m", plannedCalls: 2, endedEarly: null };

test("a run has passed when every planned call has, and thinking was observed when it was in each that was made", () => {
  const good = judge(asked({ text: fact }));
  const silent = judge(asked({ text: fact, isThinking: false }));
  const bad = judge(asked({ text: "no" }));
  const of = (calls: CallReport[]) => {
    const { recall_passed, thinking_observed } = judgeRun(RUN, calls);
    return [recall_passed, thinking_observed];
  };
  expect(of([good, good])).toEqual([true, true]);
  expect(of([good, silent])).toEqual([true, false]);
  expect(of([good, bad])).toEqual([false, true]);
  expect(of([good])).toEqual([false, true]);
  expect(of([])).toEqual([false, false]);
});

test("a first call that can't get through is hopeless, and one that was answered is not", () => {
  const unreachable = { kind: "unreachable" as const, detail: "" };
  expect(isHopeless(judge(asked(null, { status: null, fault: unreachable })))).toBe(true);
  for (const [status, hopeless] of [
    [401, true],
    [403, true],
    [404, true],
    [407, true],
    [429, false],
    [500, false],
    [529, false],
  ] as const) {
    const fault = { kind: "http_status" as const, detail: "" };
    expect(isHopeless(judge(asked(null, { status, fault }))), String(status)).toBe(hopeless);
  }
  expect(isHopeless(judge(asked({ text: "no" })))).toBe(false);
});

test("the table has one row a case, with its failures counted", () => {
  const good = judge(asked({ text: fact }));
  const bad = judge(asked({ text: "This is the start of our conversation.", isThinking: false }));
  expect(summaryRows([good, bad, bad])).toEqual([
    ["greeting", "3", "1 of 3", "1 of 3", "2 missing_fact, 2 missing_history_claim"],
  ]);
  expect(summaryRows([])).toEqual([]);
});
