/**
 * Compares a history with what it must be: roles, order, number of repeats, and each text code point by code point. Says
 * the first difference and what it looks like (missing, doubled, out of order, trimmed, line ends), or nothing. Pure.
 */
import type { Row } from "../model/neutral.ts";
import type { ExpectedRow, NativePart } from "./expected.ts";

/** Null: they are the same. Else one or two lines for people. */
export function firstDifference(expected: readonly ExpectedRow[], actual: readonly Row[]): string | null {
  const ids = actual.flatMap(({ toolCalls }) => toolCalls.map(({ id }) => id));
  const fits = (wanted: ExpectedRow | undefined, row: Row | undefined) =>
    wanted !== undefined && row !== undefined && rowDifference(wanted, row, ids) === null;
  const length = Math.max(expected.length, actual.length);
  for (let at = 0; at < length; at++) {
    const [wanted, row] = [expected[at], actual[at]];
    if (fits(wanted, row)) continue;
    const where = `row ${at} of ${actual.length} (expected: ${expected.length})`;
    if (wanted === undefined) {
      const earlier = expected.findIndex((each) => fits(each, row));
      return `${where}: one more than expected${earlier < 0 ? "" : `, like row ${earlier}`}: ${shownRow(row)}`;
    }
    if (row === undefined) return `${where}: missing: ${shownExpected(wanted)}`;
    if (at > 0 && fits(expected[at - 1], row) && fits(wanted, actual[at + 1]))
      return `${where}: doubled: ${shownRow(row)}`;
    const isLater = actual.slice(at + 1).some((each) => fits(wanted, each));
    if (fits(expected[at + 1], row) && !isLater) return `${where}: missing: ${shownExpected(wanted)}`;
    if (isLater && expected.slice(at + 1).some((each) => fits(each, row)))
      return `${where}: out of order: ${shownRow(row)}\n  instead of ${shownExpected(wanted)}`;
    return `${where}: ${rowDifference(wanted, row, ids)}`;
  }
  return null;
}

/** @param ids of all calls of the history, in order */
function rowDifference(wanted: ExpectedRow, row: Row, ids: readonly string[]): string | null {
  if (wanted.role !== row.role)
    return `the role is ${row.role} and not ${wanted.role}: ${shownRow(row)}\n  instead of ${shownExpected(wanted)}`;
  const count = Math.max(wanted.parts.length, row.texts.length);
  for (let at = 0; at < count; at++) {
    const difference = partDifference(wanted.parts[at], row.texts[at]);
    if (difference !== null) return `${row.role}, part ${at} of ${row.texts.length}: ${difference}`;
  }
  const calls = row.toolCalls.map(({ name, arguments: args }) => ({ name, arguments: parsed(args) }));
  if (canonical(wanted.calls ?? []) !== canonical(calls))
    return `the calls are ${clipped(canonical(calls))} and not ${clipped(canonical(wanted.calls ?? []))}`;
  const answers = row.toolResults.map(({ callId }) => ids.indexOf(callId));
  if (canonical(wanted.answers ?? []) !== canonical(answers))
    return `the results answer the calls ${canonical(answers)} and not ${canonical(wanted.answers ?? [])}`;
  return null;
}

function partDifference(wanted: string | NativePart | undefined, text: string | undefined): string | null {
  if (wanted === undefined) return `one more than expected: ${shown(text ?? "")}`;
  if (text === undefined) return `missing: ${typeof wanted === "string" ? shown(wanted) : wanted.native}`;
  if (typeof wanted === "string") return wanted === text ? null : textDifference(wanted, text);
  return wanted.form.test(text) ? null : `no ${wanted.native}: ${shown(text)}`;
}

function textDifference(wanted: string, text: string): string {
  const [left, right] = [[...wanted], [...text]];
  let at = 0;
  while (at < left.length && left[at] === right[at]) at++;
  const around = (points: readonly string[]) => shown(points.slice(Math.max(0, at - 12), at + 28).join(""));
  const hint = HINTS.find(({ fits }) => fits(wanted, text))?.what;
  return [
    `the text differs at code point ${at}${hint === undefined ? "" : ` (${hint})`}:`,
    `${pointName(right[at])} and not ${pointName(left[at])},`,
    `${right.length} code points and not ${left.length}:\n  ${around(right)}\n  instead of ${around(left)}`,
  ].join(" ");
}

const HINTS: ReadonlyArray<{ what: string; fits(wanted: string, text: string): boolean }> = [
  { what: "CRLF became LF", fits: (wanted, text) => text === wanted.replaceAll("\r\n", "\n") },
  { what: "trimmed at its end", fits: (wanted, text) => text !== wanted && text === wanted.trimEnd() },
  {
    what: "trimmed at its beginning",
    fits: (wanted, text) => text !== wanted && text === wanted.trimStart(),
  },
  { what: "trimmed", fits: (wanted, text) => text !== wanted && text === wanted.trim() },
  { what: "another Unicode form", fits: (wanted, text) => wanted.normalize() === text.normalize() },
  { what: "cut", fits: (wanted, text) => wanted.startsWith(text) },
  { what: "with something before it", fits: (wanted, text) => text.endsWith(wanted) },
  { what: "with something behind it", fits: (wanted, text) => text.startsWith(wanted) },
];

function pointName(point: string | undefined): string {
  return point === undefined
    ? "its end"
    : `U+${(point.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function parsed(args: string): unknown {
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

/** The same text for the same value, whatever the order of its keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}

function shownRow(row: Row | undefined): string {
  if (row === undefined) return "nothing";
  const calls = row.toolCalls.map(({ name }) => `calls ${name}`);
  return [row.role, ...row.texts.map((text) => shown(text)), ...calls].join(" ");
}

function shownExpected({ role, parts, calls = [] }: ExpectedRow): string {
  const texts = parts.map((part) => (typeof part === "string" ? shown(part) : `<${part.native}>`));
  return [role, ...texts, ...calls.map(({ name }) => `calls ${name}`)].join(" ");
}

const SHOWN = 60;

/** In ASCII, so that what can't be seen is seen. */
function shown(text: string): string {
  const ascii = JSON.stringify(text).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return clipped(ascii, SHOWN * 4);
}

function clipped(text: string, most = SHOWN * 6): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length} characters)`;
}
