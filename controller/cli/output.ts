/**
 * What the command line prints: results on stdout, everything else on stderr. The only file of the controller that
 * writes to the console, and the one door to the terminal: whatever passes it is freed of control characters, so no
 * text of a sandbox, a model or an engine can move the cursor or forge a line. Colour only on a terminal.
 */
import type { HoldfastError } from "../../protocol/errors.ts";

type Style = "plain" | "bold" | "dim";

export interface Output {
  readonly isJson: boolean;
  /** A line of a result. */
  line(text?: string, style?: Style): void;
  /** A piece of a result, as it comes. */
  piece(text: string): void;
  /** Ends the line that pieces began; nothing when there is none. */
  endLine(): void;
  /** A result for machines: one JSON value, one line. */
  json(value: unknown): void;
  /** What is going on, for somebody who waits. With --json a line `{"progress": text}`. */
  progress(text: string, style?: Style): void;
  error(error: HoldfastError): void;
  /** A command as the user types it here: `holdfast doctor`, or `npm run holdfast -- doctor`. */
  command(words: string): string;
}

interface Stream {
  write(text: string): unknown;
  isTTY?: boolean;
}

export interface Streams {
  stdout: Stream;
  stderr: Stream;
}

const CODES: Readonly<Record<Style, number | null>> = { plain: null, bold: 1, dim: 2 };

export function createOutput(options: {
  isJson: boolean;
  noColor: boolean;
  /** How the command line was called. Default `holdfast`. */
  callName?: string;
  streams?: Streams;
}): Output {
  const { isJson, callName = "holdfast" } = options;
  const { stdout, stderr } = options.streams ?? process;
  /** Pieces are on a line that has not ended. */
  let isMidLine = false;
  /** The first half of a character that came in two pieces. */
  let half = "";

  const paint = (stream: Stream, text: string, style: Style) => {
    const code = CODES[style];
    const isPlain = code === null || stream.isTTY !== true || options.noColor || text.trim() === "";
    return isPlain ? text : `\u001b[${code}m${text}\u001b[0m`;
  };
  const endLine = () => {
    half = "";
    if (isMidLine) stdout.write("\n");
    isMidLine = false;
  };

  return {
    isJson,
    endLine,
    line(text = "", style = "plain") {
      endLine();
      stdout.write(`${paint(stdout, printable(text), style)}\n`);
    },
    piece(text) {
      const whole = half + text;
      half = /[\ud800-\udbff]$/.test(whole) ? whole.slice(-1) : "";
      const shown = printable(whole.slice(0, whole.length - half.length));
      if (shown === "") return;
      stdout.write(shown);
      isMidLine = !shown.endsWith("\n");
    },
    json: (value) => void stdout.write(`${jsonLine(value)}\n`),
    progress(text, style = "plain") {
      if (isJson) {
        if (text.trim() !== "") stderr.write(`${jsonLine({ progress: printable(text).trim() })}\n`);
        return;
      }
      // Both on one terminal: the note gets a line of its own. A result in a file stays as it is.
      if (stdout.isTTY === true && stderr.isTTY === true) endLine();
      stderr.write(`${paint(stderr, printable(text), style)}\n`);
    },
    error(error) {
      const message = oneLine(withCause(error));
      const { code, details } = error;
      const next = error.next.replaceAll("`holdfast ", `\`${callName} `);
      if (isJson) {
        stderr.write(`${jsonLine({ error: { code, message, details, next } })}\n`);
        return;
      }
      if (stdout.isTTY === true && stderr.isTTY === true) endLine();
      stderr.write(`holdfast: ${message} [${code}] ${next}\n`);
    },
    command: (words) => `${callName} ${words}`,
  };
}

/** The reason beneath an error of ours, where its own message leaves it out (a system call's, SQLite's). */
function withCause({ message, cause }: HoldfastError): string {
  if (!(cause instanceof Error) || cause.message === "" || message.includes(cause.message)) return message;
  return `${message} (${cause.message})`;
}

/** JSON in one line of printable characters: JSON itself lets the upper control characters and bidi marks through. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    UNSAFE_IN_JSON,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const UNSAFE_IN_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
const LINE_BREAKS = /\s*[\n\u2028\u2029]\s*/g;
/** What turns the direction of the text behind it: it can make one line read as another. */
const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;

/** A text of others for a place in a line of ours: no second line, no turned direction. */
export function oneLine(text: string): string {
  return printable(text).replace(LINE_BREAKS, " ").replace(BIDI_CONTROLS, "");
}

/** The text without control characters; line feeds and tabs stay. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : ""));
}

/** A plain table of one line a row; the last column is not padded. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const all = [head, ...rows].map((row) => row.map(oneLine));
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => (column === head.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

export function iso(at: number): string {
  return new Date(at).toISOString();
}
