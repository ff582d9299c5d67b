// The script inside a user's own text: `@model[ ...steps as JSON... ]` anywhere in it. For callers that can
// reach the model only through a user message; tests register scripts instead. Pure.
import { parseSteps, type Step } from "./steps.ts";

const MARK = "@model[";

/** Null: no directive. Throws a TypeError when there is one that can't be read. */
export function directiveIn(text: string): Step[] | null {
  const at = text.indexOf(MARK);
  if (at < 0) return null;
  const json = balanced(text, at + MARK.length - 1);
  if (json === null) throw new TypeError("@model directive: the bracket is not closed");
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new TypeError("@model directive: not JSON", { cause });
  }
  return parseSteps(value);
}

/** The text from the bracket at `start` to its partner, skipping brackets inside JSON strings. */
function balanced(text: string, start: number): string | null {
  let depth = 0;
  let isInString = false;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (isInString) {
      if (char === "\\") at++;
      else if (char === '"') isInString = false;
    } else if (char === '"') isInString = true;
    else if (char === "[" || char === "{") depth++;
    else if (char === "]" || char === "}") {
      depth--;
      if (depth === 0) return text.slice(start, at + 1);
    }
  }
  return null;
}
