/**
 * What the command line prints: results on stdout, everything else on stderr. Colour only on a terminal. The only file
 * of the controller that writes to the console.
 */
import { ERROR_CATALOGUE, type HoldfastError } from "../../protocol/errors.ts";

export interface Output {
  readonly isJson: boolean;
  /** A line of a result. */
  line(text?: string): void;
  /** A piece of a result, as it comes. */
  piece(text: string): void;
  /** A result for machines: one JSON value, one line. */
  json(value: unknown): void;
  /** What is going on, for somebody who waits. */
  progress(text: string): void;
  error(error: HoldfastError): void;
  dim(text: string): string;
  bold(text: string): string;
}

export interface Streams {
  stdout: { write(text: string): unknown; isTTY?: boolean };
  stderr: { write(text: string): unknown };
}

export function createOutput(options: { isJson: boolean; noColor: boolean; streams?: Streams }): Output {
  const { stdout, stderr } = options.streams ?? process;
  const isColored = stdout.isTTY === true && !options.noColor && !options.isJson;
  const paint = (code: number) => (text: string) => (isColored ? `\u001b[${code}m${text}\u001b[0m` : text);
  return {
    isJson: options.isJson,
    line: (text = "") => void stdout.write(`${text}\n`),
    piece: (text) => void stdout.write(text),
    json: (value) => void stdout.write(`${JSON.stringify(value)}\n`),
    progress: (text) => void stderr.write(`${text}\n`),
    error(error) {
      if (options.isJson) {
        const { code, message, details, next } = error;
        stderr.write(`${JSON.stringify({ error: { code, message, details, next } })}\n`);
        return;
      }
      stderr.write(
        `holdfast: ${oneLine(error.message)} [${error.code}] ${ERROR_CATALOGUE[error.code].next}\n`,
      );
    },
    dim: paint(2),
    bold: paint(1),
  };
}

/** Text that came from a sandbox must not move the terminal's cursor or forge a second line. */
export function oneLine(text: string): string {
  return printable(text).replace(/\s*\n\s*/g, " ");
}

/** The text without control characters; line feeds and tabs stay. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : ""));
}

/** A plain table; the last column is not padded. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const all = [head, ...rows];
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
