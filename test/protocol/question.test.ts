import { expect, test } from "vitest";
import { answersProblem, type QuestionItem, QuestionRequest } from "../../protocol/question.ts";

const COLOR: QuestionItem = {
  header: "Color",
  question: "Pick a color",
  options: [
    { label: "red", description: "r" },
    { label: "blue", description: "b" },
  ],
  isMultiple: false,
  isOpen: false,
};
const ask = (...items: QuestionItem[]): QuestionRequest => ({
  request: "que_1",
  session: "ses_1",
  ancestry: [{ session: "ses_1", title: "child" }],
  items,
});

test("one option of those offered answers a question", () => {
  expect(answersProblem(ask(COLOR), [["blue"]])).toBeNull();
});

test("each way in which answers do not fit is said", () => {
  expect(answersProblem(ask(COLOR), [])).toBe("1 answers are needed, 0 came");
  expect(answersProblem(ask(COLOR), [["red"], ["blue"]])).toBe("1 answers are needed, 2 came");
  expect(answersProblem(ask(COLOR), [[]])).toBe("answer 1 is empty");
  expect(answersProblem(ask(COLOR), [["red", "blue"]])).toBe("answer 1 may choose one option only");
  expect(answersProblem(ask(COLOR), [["green"]])).toBe("answer 1 is not among the options");
  expect(answersProblem(ask(COLOR, { ...COLOR, isMultiple: true }), [["red"], ["blue", "pink"]])).toBe(
    "answer 2 is not among the options",
  );
});

test("several options and own texts are taken where the question allows them", () => {
  expect(answersProblem(ask({ ...COLOR, isMultiple: true }), [["red", "blue"]])).toBeNull();
  expect(answersProblem(ask({ ...COLOR, isOpen: true }), [["a colour of my own"]])).toBeNull();
});

test("a question is accepted as it is, and refused beyond its bounds", () => {
  expect(QuestionRequest.safeParse(ask(COLOR)).success).toBe(true);
  const bad: unknown[] = [
    ask(),
    ask(...Array.from({ length: 17 }, () => COLOR)),
    ask({ ...COLOR, options: Array.from({ length: 65 }, () => ({ label: "x", description: "" })) }),
    ask({ ...COLOR, question: "x".repeat(2001) }),
    { ...ask(COLOR), session: "" },
    { ...ask(COLOR), ancestry: Array.from({ length: 33 }, () => ({ session: "s", title: "" })) },
  ];
  for (const value of bad) expect(QuestionRequest.safeParse(value).success).toBe(false);
});
