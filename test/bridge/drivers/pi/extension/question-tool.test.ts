import { expect, test } from "vitest";
import type { PiContext } from "../../../../../bridge/drivers/pi/extension/pi-api.ts";
import { QUESTION } from "../../../../../bridge/drivers/pi/extension/question-tool.ts";

const QUESTIONS = [
  {
    question: "Which colours?",
    header: "Colours",
    options: [{ label: "blue", description: "as the sea" }, { label: "green" }],
    multiple: true,
    custom: false,
  },
  { question: "Your name?", options: [] },
];

function ask(reply: string | undefined, signal?: AbortSignal) {
  const asked: Array<{ title: unknown; signal: AbortSignal | undefined }> = [];
  const context = {
    ui: {
      async input(title: string, _placeholder: undefined, more: { signal?: AbortSignal }) {
        asked.push({ title: JSON.parse(title), signal: more.signal });
        return reply;
      },
    },
  } as unknown as PiContext;
  const result = QUESTION.execute("c1", { questions: QUESTIONS }, signal, undefined, context);
  return { asked, result };
}

test("several items go out in one dialog, with what the model left out filled in", async () => {
  const { signal } = new AbortController();
  const { asked, result } = ask('[["blue","green"],["Ann"]]', signal);
  await result;
  expect(asked).toEqual([
    {
      signal,
      title: {
        say: "question",
        call: "c1",
        items: [
          {
            header: "Colours",
            question: "Which colours?",
            options: [
              { label: "blue", description: "as the sea" },
              { label: "green", description: "" },
            ],
            isMultiple: true,
            isOpen: false,
          },
          { header: "", question: "Your name?", options: [], isMultiple: false, isOpen: true },
        ],
      },
    },
  ]);
});

test("the model reads each question with its answers, in clear text", async () => {
  const { result } = ask('[["blue","green"],["Ann"]]');
  expect((await result).content).toEqual([
    {
      type: "text",
      text: "The user answered:\n\nWhich colours?\n→ blue, green\n\nYour name?\n→ Ann",
    },
  ]);
});

test("a cancelled dialog fails the call, and so does a reply that is none", async () => {
  await expect(ask(undefined).result).rejects.toThrow("The user did not answer.");
  await expect(ask("not JSON").result).rejects.toThrow();
});

test("the schema is a JSON schema that bounds what a request on the wire bounds", () => {
  expect(QUESTION.parameters).toMatchObject({
    type: "object",
    properties: {
      questions: { minItems: 1, maxItems: 16, items: { properties: { options: { maxItems: 64 } } } },
    },
  });
});
