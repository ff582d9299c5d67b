import { expect, test, vi } from "vitest";
import { type AnswerPorts, answersOf, createAsker, replyOf } from "../../../controller/cli/asks.ts";
import { createOutput } from "../../../controller/cli/output.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import type { QuestionItem } from "../../../protocol/question.ts";
import { EVENTS, QUESTION } from "../../support/samples.ts";

const asked = EVENTS["turn.permission_asked"];
const questioned = EVENTS["turn.question_asked"];
const COLOR: QuestionItem = {
  header: "Color",
  question: "Pick a color",
  options: [
    { label: "red", description: "warm" },
    { label: "blue", description: "" },
  ],
  isMultiple: false,
  isOpen: false,
};

function scene(lines: string[], ports: Partial<AnswerPorts> = {}) {
  const told: string[] = [];
  const sink = { write: (text: string) => told.push(text) };
  const output = createOutput({ isJson: false, noColor: true, streams: { stdout: sink, stderr: sink } });
  const calls: unknown[][] = [];
  const asker = createAsker({
    output,
    ports: {
      permission: ports.permission ?? (async (...call) => void calls.push(call)),
      question: ports.question ?? (async (...call) => void calls.push(call)),
    },
    nextLine: (signal) => {
      const line = lines.shift();
      if (line !== undefined) return Promise.resolve(line);
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve(null), { once: true }));
    },
  });
  return { asker, calls, text: () => told.join("") };
}

test("a permission is asked with its tool, its patterns and the task that wants it, and answered once", async () => {
  const { asker, calls, text } = scene(["perhaps", " Y "]);
  asker.take({
    ...asked,
    ancestry: [
      { session: "ses_c", title: "explore" },
      { session: "ses_1", title: "" },
    ],
  });
  await vi.waitFor(() => expect(calls).toEqual([["t-1", "ses_1", "per_1", "once"]]));
  expect(text()).toContain("bash by task 'explore'");
  expect(text()).toContain("ls *");
  expect(text().match(/\[y\]es/g)).toHaveLength(2);
});

test("a permission that the policy decides is not asked", async () => {
  const { asker, text } = scene(["y"]);
  asker.take({ ...asked, action: "allow" });
  await Promise.resolve();
  expect(text()).toBe("");
});

test("a question shows its options by number; a number, a name or an own text answers it", () => {
  expect(answersOf(COLOR, "2")).toEqual(["blue"]);
  expect(answersOf(COLOR, " RED ")).toEqual(["red"]);
  expect(answersOf(COLOR, "green")).toBeNull();
  expect(answersOf(COLOR, "3")).toBeNull();
  expect(answersOf(COLOR, "1,2")).toBeNull();
  expect(answersOf(COLOR, "  ")).toBeNull();
  expect(answersOf({ ...COLOR, isMultiple: true }, "1, blue")).toEqual(["red", "blue"]);
  expect(answersOf({ ...COLOR, isOpen: true }, "sea green, please")).toEqual(["sea green, please"]);
});

test("every item of a question is answered in order, and the whole goes out once", async () => {
  const { asker, calls, text } = scene(["1", "none of them", "2"]);
  asker.take({ ...questioned, question: { ...QUESTION, items: [COLOR, COLOR] } });
  await vi.waitFor(() => expect(calls).toEqual([["t-1", "ses_2", "que_1", [["red"], ["blue"]]]]));
  expect(text()).toContain("Pick a color by task 'explore'");
  expect(text()).toContain("1  red  (warm)");
});

test("a dash rejects the question", async () => {
  const { asker, calls } = scene(["-"]);
  asker.take(questioned);
  await vi.waitFor(() => expect(calls).toEqual([["t-1", "ses_2", "que_1", null]]));
});

test("what is closed meanwhile is taken away from the user, and the next one is asked", async () => {
  const { asker, calls, text } = scene([]);
  asker.take(asked);
  asker.take(questioned);
  expect(text()).not.toContain("Pick a color");
  asker.take(EVENTS["turn.permission_closed"]);
  await vi.waitFor(() => expect(text()).toContain("Pick a color"));
  asker.end();
  await Promise.resolve();
  expect(calls).toEqual([]);
});

test("an answer that came too late is said, and ends nothing", async () => {
  const { asker, text } = scene(["y"], {
    permission: () => Promise.reject(new HoldfastError("REQUEST_CLOSED")),
  });
  asker.take(asked);
  await vi.waitFor(() => expect(text()).toContain("not delivered"));
  expect(text()).toContain("REQUEST_CLOSED");
});

test("control characters of a sandbox never reach the terminal through a question", async () => {
  const { asker, text } = scene([]);
  asker.take({ ...questioned, question: { ...QUESTION, items: [{ ...COLOR, question: "a\u001b[2Jb\nc" }] } });
  await vi.waitFor(() => expect(text()).toContain("a[2Jb"));
  expect(text()).not.toContain("\u001b");
  asker.end();
});

test("a yes and a no have their words, and nothing else is taken for one", () => {
  expect(["y", "YES", " yes "].map(replyOf)).toEqual(["once", "once", "once"]);
  expect(["n", "No"].map(replyOf)).toEqual(["reject", "reject"]);
  expect(["", "always", "ok"].map(replyOf)).toEqual([null, null, null]);
});
