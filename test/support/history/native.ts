/**
 * What each pinned CLI does to a history by itself, by version: text of its own beside the user's, texts that it joins, what
 * is left of a turn that failed or was aborted, and prefixes that break for it. Native and documented here
 * (docs/operations.md says it to users), pinned by the recall suites, never ours.
 */
import { MENTIONED } from "./corpus.ts";
import { assistantRow, type ExpectedRow, type NativePart, type Part, userRow } from "./expected.ts";

interface MessagePlace {
  readonly text: string;
  /** What an earlier turn left, to go with the next text. */
  readonly waiting: readonly Part[];
  /** Nothing was said before it. */
  readonly isFirst: boolean;
  readonly isFirstOfProcess: boolean;
}

export interface NativeHistory {
  readonly cli: string;
  readonly version: string;
  /** A message of the user, with what the CLI puts before and beside it. */
  message(place: MessagePlace): ExpectedRow[];
  /** What stands behind the text of a failed turn that is sent in one message with the next; null: in one of its own. */
  readonly joint: string | null;
  /** What stands behind the text of an aborted turn: in messages of its own, and before the next text. */
  aborted(partial: string): { rows: readonly ExpectedRow[]; next: readonly Part[] };
  /** What a resume puts behind what an abort left to go with the next text; null: that waits on. */
  readonly resumedAbort: readonly ExpectedRow[] | null;
  /** Prefixes that it breaks by itself, in the order of the recall suite's conversation: what changes, and with which text. */
  readonly breaks: ReadonlyArray<{ readonly changed: string; readonly text: string }>;
}

const plain = ({ text, waiting }: MessagePlace): ExpectedRow[] => [userRow(...waiting, text)];

/** Nothing of its own; what an aborted answer had said stays. */
export const OPENCODE_HISTORY: NativeHistory = {
  cli: "opencode",
  version: "1.18.33",
  message: plain,
  joint: null,
  aborted: (partial) => ({ rows: [assistantRow(partial)], next: [] }),
  resumedAbort: null,
  breaks: [],
};

const DETAILS: NativePart = {
  native: "details",
  form: /^\s*<environment_details>\nMessage time: [^\n]+\n[\s\S]*<\/environment_details>\s*$/,
};

/** Details of its own behind each text. */
export const KILO_HISTORY: NativeHistory = {
  ...OPENCODE_HISTORY,
  cli: "kilo",
  version: "7.7.7",
  message: ({ text, waiting }) => [userRow(...waiting, text, DETAILS)],
};

const ENVIRONMENT: NativePart = {
  native: "environment",
  form: /^<environment_context>\n[\s\S]*<\/environment_context>$/,
};
const ABORTED: NativePart = { native: "abort", form: /^<turn_aborted>\n[\s\S]*\n<\/turn_aborted>$/ };

/** Messages of its own in the user's place: the environment before the first, and a note in the place of an aborted answer. */
export const CODEX_HISTORY: NativeHistory = {
  cli: "codex",
  version: "0.171.0",
  message: (place) => [...(place.isFirst ? [userRow(ENVIRONMENT)] : []), ...plain(place)],
  joint: null,
  aborted: () => ({ rows: [userRow(ABORTED)], next: [] }),
  resumedAbort: null,
  breaks: [],
};

/** Nothing of its own; nothing is left of an aborted answer. */
export const PI_HISTORY: NativeHistory = {
  cli: "pi",
  version: "1.6.0",
  message: plain,
  joint: null,
  aborted: () => ({ rows: [], next: [] }),
  resumedAbort: null,
  breaks: [],
};

const REMINDER: NativePart = {
  native: "reminder",
  form: /^<system-reminder>\n[\s\S]*<\/system-reminder>\s*$/,
};
const READING: NativePart = { native: "reading", form: /^<system-reminder>\nCalled the Read tool with/ };
const FILE: NativePart = {
  native: "file",
  form: new RegExp(`^<system-reminder>\\nResult of calling the Read tool:\\n1\\t${MENTIONED.content}\\n`),
};
const INTERRUPTED: NativePart = { native: "interrupt", form: /^\[Request interrupted by user\]\s*$/ };

/**
 * Texts of turns that failed go with the next one, a line feed behind each; a note of an abort goes before the next text, or,
 * when it is resumed, alone with an answer to it.
 */
const CLAUDE_HISTORY: Omit<NativeHistory, "version" | "message" | "breaks"> = {
  cli: "claude",
  joint: "\n",
  aborted: (partial) => ({ rows: [assistantRow(partial)], next: [INTERRUPTED] }),
  resumedAbort: [assistantRow("No response requested.")],
};

/** One reading for each of its two names. */
const isMentioned = (text: string) => text.startsWith(`@${MENTIONED.name}`);

export const CLAUDE_HISTORIES: Readonly<Record<"2.1.220" | "2.1.332", NativeHistory>> = {
  /** A reminder before the first text of all. A file that is mentioned comes behind the text, in a message of the system. */
  "2.1.220": {
    ...CLAUDE_HISTORY,
    version: "2.1.220",
    message: ({ text, waiting, isFirst }) => [userRow(...(isFirst ? [REMINDER] : []), ...waiting, text)],
    breaks: [
      { changed: "history", text: "This will fail.\n\nBehind the failure." },
      { changed: "history", text: "This will fail too.\r\n\n\nThe last before the end." },
    ],
  },
  /**
   * A file that is mentioned comes before the text, read once for each mention. A request that was refused with 400 is tried
   * again without a way of thinking, and then without the tools that it defers.
   */
  "2.1.332": {
    ...CLAUDE_HISTORY,
    version: "2.1.332",
    message: ({ text, waiting }) =>
      isMentioned(text)
        ? [userRow(...waiting, READING), userRow(FILE, READING, FILE, text)]
        : [userRow(...waiting, text)],
    breaks: [
      ...refusedTries("This will fail."),
      { changed: "tools, parameters, history", text: "This will fail.\n\nBehind the failure." },
      ...refusedTries("This will fail too.\r\n"),
      { changed: "tools, parameters, history", text: "This will fail too.\r\n\n\nThe last before the end." },
    ],
  },
};

function refusedTries(text: string): NativeHistory["breaks"] {
  return ["parameters", "tools, parameters", "parameters"].map((changed) => ({ changed, text }));
}
