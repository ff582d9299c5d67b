/** The tool with which pi's model asks its user: pi has none. Its schema is that of the other CLIs' word, `question`. */
import type { PiTool } from "./pi-api.ts";
import { QUESTION_TOOL, type QuestionTitle } from "./words.ts";

const TEXT = { type: "string", maxLength: 2000 };

const PARAMETERS = {
  type: "object",
  required: ["questions"],
  properties: {
    questions: {
      type: "array",
      minItems: 1,
      maxItems: 16,
      description: "Questions to ask",
      items: {
        type: "object",
        required: ["question", "options"],
        properties: {
          question: { ...TEXT, description: "The whole question" },
          header: { ...TEXT, description: "A few words as its title" },
          options: {
            type: "array",
            maxItems: 64,
            description: "What can be chosen; may be empty for a question with a free answer",
            items: {
              type: "object",
              required: ["label"],
              properties: {
                label: { ...TEXT, description: "Short text that is shown and returned" },
                description: { ...TEXT, description: "What choosing it means" },
              },
            },
          },
          multiple: { type: "boolean", description: "Several may be chosen (default: false)" },
          custom: { type: "boolean", description: "An answer of the user's own is allowed (default: true)" },
        },
      },
    },
  },
};

interface Params {
  questions: Array<{
    question: string;
    header?: string;
    options: Array<{ label: string; description?: string }>;
    multiple?: boolean;
    custom?: boolean;
  }>;
}

export const QUESTION: PiTool = {
  name: QUESTION_TOOL,
  label: "Question",
  description:
    "Ask the user one or more questions and wait for the answers. Use it when you need a decision or something only the user knows.",
  promptSnippet: "Ask the user questions, with options to choose from",
  parameters: PARAMETERS,
  async execute(call, params, signal, _onUpdate, { ui }) {
    // Pi has checked them against the schema above.
    const { questions } = params as Params;
    const title: QuestionTitle = { say: "question", call, items: questions.map(itemOf) };
    const reply = await ui.input(JSON.stringify(title), undefined, { signal });
    if (reply === undefined) throw new Error("The user did not answer.");
    const answers = JSON.parse(reply) as string[][];
    return { content: [{ type: "text", text: told(questions, answers) }], details: { answers } };
  },
};

function itemOf({
  question,
  header = "",
  options,
  multiple = false,
  custom = true,
}: Params["questions"][number]) {
  return {
    header,
    question,
    options: options.map(({ label, description = "" }) => ({ label, description })),
    isMultiple: multiple,
    // Without options nothing but an own answer is left.
    isOpen: custom || options.length === 0,
  };
}

/** What the model reads. */
function told(questions: Params["questions"], answers: readonly string[][]): string {
  const lines = questions.map(({ question }, at) => `${question}\n→ ${(answers[at] ?? []).join(", ")}`);
  return `The user answered:\n\n${lines.join("\n\n")}`;
}
