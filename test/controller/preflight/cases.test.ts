import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { CASE_NAMES, casesOf } from "../../../controller/preflight/cases.ts";
import { missingFacts, missingHistoryClaim } from "../../../controller/preflight/detectors.ts";

test("F4: five calls, in this order, that begin and end with the user", () => {
  const cases = casesOf(randomInt);
  expect(cases.map(({ name }) => name)).toEqual([...CASE_NAMES]);
  for (const { messages } of cases) {
    expect(messages.map(({ role }) => role)).toEqual(
      messages.map((_, at) => (at % 2 === 0 ? "user" : "assistant")),
    );
    expect(messages.at(-1)?.role).toBe("user");
  }
});

test("each fact is told before the last question and not in it, and belongs to one call alone", () => {
  const cases = casesOf(randomInt);
  const all = cases.flatMap(({ facts }) => facts);
  expect(all).toHaveLength(5);
  expect(new Set(all).size).toBe(all.length);
  for (const { messages, facts, name } of cases) {
    const question = messages.at(-1)?.text ?? "";
    const before = messages.slice(0, -1).map(({ text }) => text);
    for (const fact of facts) {
      expect(fact).toMatch(/^[a-z]+-\d{4}$/);
      expect(missingFacts(question, [fact]), name).toEqual([fact]);
      expect(missingFacts(before.join("\n"), [fact]), name).toEqual([]);
    }
  }
});

test("the same word twice from chance still makes different facts", () => {
  const given = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4];
  const cases = casesOf(() => given.shift() ?? 5);
  const all = cases.flatMap(({ facts }) => facts);
  expect(new Set(all).size).toBe(5);
});

test("the repeated question is the same text, and the second correction overrules the first code", () => {
  const [, repeated, , update, none] = casesOf(randomInt);
  const questions = (repeated?.messages ?? []).filter(({ role }) => role === "user").map(({ text }) => text);
  expect(questions.at(-1)).toBe(questions.at(-2));
  expect(questions[0]).toContain(questions[1]);
  expect(update?.facts).toContain(update?.overruled);
  expect(none).toMatchObject({ hasHistory: false, facts: [] });
  expect(none?.messages).toHaveLength(1);
});

test("nothing that is sent would itself be taken for a claim of missing history", () => {
  for (const { messages } of casesOf(randomInt).filter(({ hasHistory }) => hasHistory))
    for (const { text } of messages) expect(missingHistoryClaim(text), text).toBeNull();
});
