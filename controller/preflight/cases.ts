/**
 * The five calls of one repetition of the preflight: what is sent, and which facts an answer must hold. Pure; chance is an
 * argument. All texts are made up here. Each fact is a word of its own, so that a right answer can't be a guess, and none
 * of one call is in another one.
 */

export const CASE_NAMES = ["greeting", "repeated-question", "task", "fact-update", "no-history"] as const;
export type CaseName = (typeof CASE_NAMES)[number];

export interface PreflightMessage {
  role: "user" | "assistant";
  text: string;
}

export interface PreflightCase {
  readonly name: CaseName;
  /** Oldest first; the last one is the user's question. */
  readonly messages: readonly PreflightMessage[];
  /** The answer must hold each of them. */
  readonly facts: readonly string[];
  /** What was true before a correction: named as what holds now, it is a missing fact. Null without a correction. */
  readonly overruled: string | null;
  /** False: nothing came before the question, so that an answer which says so is right. */
  readonly hasHistory: boolean;
}

/** Sent with each call as a CLI sends its own instructions. */
export const INSTRUCTIONS =
  "You are a helpful assistant. Answer in English, in at most three short sentences, from this conversation.";

const WORDS = ["amber", "birch", "cobalt", "dune", "ember", "fjord", "garnet", "heron", "iris", "juniper"];

/** @param below gives a whole number of 0 up to, and without, its argument */
export function casesOf(below: (limit: number) => number): PreflightCase[] {
  const used = new Set<string>();
  const fact = (): string => {
    for (;;) {
      const made = `${WORDS[below(WORDS.length)] ?? "kelp"}-${1000 + below(9000)}`;
      if (!used.has(made)) {
        used.add(made);
        return made;
      }
    }
  };
  return [greeting(fact()), repeatedQuestion(fact()), task(fact()), factUpdate(fact(), fact()), noHistory()];
}

function greeting(name: string): PreflightCase {
  return withHistory("greeting", [name], null, [
    `Hello! My call sign is ${name}.`,
    "Hello! How can I help you today?",
    "Hello again! With which call sign did I greet you the first time?",
  ]);
}

/** The question comes a third time, word for word: what answers it stands in the history alone. */
function repeatedQuestion(shelf: string): PreflightCase {
  const question = "On which shelf is the blue box?";
  return withHistory("repeated-question", [shelf], null, [
    `The blue box is on shelf ${shelf}. ${question}`,
    `It is on shelf ${shelf}.`,
    question,
    `The blue box is on shelf ${shelf}.`,
    question,
  ]);
}

function task(program: string): PreflightCase {
  return withHistory("task", [program], null, [
    `A task in two steps. Step 1: name the program ${program}. Step 2: count the lines of its input. Begin with step 1.`,
    `Step 1 is done: the program is named ${program}.`,
    "Go on with the task: say the program's name and what step 2 was.",
  ]);
}

function factUpdate(before: string, now: string): PreflightCase {
  return withHistory("fact-update", [now, before], before, [
    `The release code is ${before}.`,
    "Noted.",
    `A correction: the release code has changed, it is ${now} from now on.`,
    "Noted, the release code has changed.",
    "Which release code holds now, and which one held before? Answer in two lines: `now: CODE` and `before: CODE`.",
  ]);
}

/** The control: the one call in which a claim of missing history is right. */
function noHistory(): PreflightCase {
  const text = "Which code word did I give you earlier in this conversation? If I gave none, say so.";
  return {
    name: "no-history",
    messages: [{ role: "user", text }],
    facts: [],
    overruled: null,
    hasHistory: false,
  };
}

/** Texts of user and assistant in turn, the user's first and last. */
function withHistory(
  name: CaseName,
  facts: readonly string[],
  overruled: string | null,
  texts: readonly string[],
): PreflightCase {
  const messages = texts.map((text, at) => ({
    role: at % 2 === 0 ? ("user" as const) : ("assistant" as const),
    text,
  }));
  return { name, messages, facts, overruled, hasHistory: true };
}
