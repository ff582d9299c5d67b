/**
 * What a request's history must be, row by row: the user's texts and the model's, exact, and between them what a CLI puts
 * there of its own, by name and form. A form stands for a whole part; the user's words are never matched by one.
 */
import type { Row } from "../model/neutral.ts";

/** A part that the CLI wrote itself. */
export interface NativePart {
  readonly native: string;
  readonly form: RegExp;
}

export type Part = string | NativePart;

export interface ExpectedCall {
  readonly name: string;
  /** Parsed: CLIs send them on in a spelling of their own. A string: the text of a freeform tool. */
  readonly arguments: unknown;
}

export interface ExpectedRow {
  readonly role: Row["role"];
  readonly parts: readonly Part[];
  /** Undefined: none. */
  readonly calls?: readonly ExpectedCall[];
  /** For each result which of the calls of this history it answers, counted from 0. Undefined: none. */
  readonly answers?: readonly number[];
}

export const userRow = (...parts: ExpectedRow["parts"]): ExpectedRow => ({ role: "user", parts });
export const assistantRow = (...parts: ExpectedRow["parts"]): ExpectedRow => ({ role: "assistant", parts });
