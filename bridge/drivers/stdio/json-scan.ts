/**
 * Where a JSON object or list that begins at a place of a text ends. Pure. It knows JSON's structure and leaves the rest
 * (numbers, escapes) to JSON.parse, which it goes before: that one takes a gigabyte for 32 MB of brackets.
 * Linear: each character is looked at once, and what is no JSON is given up at its first wrong character.
 */

/** Levels of lists and objects. Beyond: `excess`. JSON.stringify, which some replies need, gives up at some thousands. */
export const NESTED_LEVELS = 1000;
/** Characters of an object's first key. Beyond: `broken`, so that a brace in a text costs no more than this. */
const FIRST_KEY_CHARS = 256;

const LITERAL = /[\w+.-]*/y;

export interface JsonScan {
  /** `end`: whole. `cut`: the text ended inside. `broken`: no JSON from `at` on. `excess`: too deep, or too many values. */
  kind: "end" | "cut" | "broken" | "excess";
  /** Just behind the value, or where it was given up. */
  at: number;
  /** Lists and objects that were begun. */
  containers: number;
  /** An object with a first key and its colon: more than a brace in a text. */
  hasKey: boolean;
}

type Expected = "value" | "value_or_close" | "key" | "key_or_close" | "colon" | "comma_or_close";

/** @param start place of a `{` or `[` */
export function scanJson(text: string, start: number, maxContainers: number): JsonScan {
  /** For each open level whether it is an object. */
  const levels: boolean[] = [];
  let expected: Expected = "value";
  let containers = 0;
  let hasKey = false;
  let at = start;
  const result = (kind: JsonScan["kind"]): JsonScan => ({ kind, at, containers, hasKey });

  for (;;) {
    while (isBlank(text.charCodeAt(at))) at += 1;
    const character = text[at];
    const isOpening: boolean = expected === "value" || expected === "value_or_close";
    if (character === undefined) return result("cut");
    if ((character === "{" || character === "[") && isOpening) {
      containers += 1;
      if (levels.length >= NESTED_LEVELS || containers > maxContainers) return result("excess");
      levels.push(character === "{");
      expected = character === "{" ? "key_or_close" : "value_or_close";
      at += 1;
    } else if ((character === "}" || character === "]") && mayClose(expected)) {
      if (levels.pop() !== (character === "}")) return result("broken");
      at += 1;
      if (levels.length === 0) return result("end");
      expected = "comma_or_close";
    } else if (character === '"' && (isOpening || expected === "key" || expected === "key_or_close")) {
      const end = stringEnd(text, at);
      if (end === null) return result("cut");
      const isFirstKey = !isOpening && !hasKey && containers === 1;
      if (isFirstKey && end - at > FIRST_KEY_CHARS) return result("broken");
      expected = isOpening ? "comma_or_close" : "colon";
      at = end;
    } else if (character === ":" && expected === "colon") {
      hasKey = true;
      expected = "value";
      at += 1;
    } else if (character === "," && expected === "comma_or_close") {
      expected = levels.at(-1) === true ? "key" : "value";
      at += 1;
    } else if (isOpening) {
      const end = literalEnd(text, at);
      if (end === at) return result("broken");
      expected = "comma_or_close";
      at = end;
    } else return result("broken");
  }
}

function mayClose(expected: Expected): boolean {
  return expected === "comma_or_close" || expected === "key_or_close" || expected === "value_or_close";
}

/** Just behind the closing quote of the string that begins here, or null. */
function stringEnd(text: string, start: number): number | null {
  for (let quote = text.indexOf('"', start + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (text[quote - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
  }
  return null;
}

/** Behind a number, `true`, `false` or `null`; whether it is one of them is JSON.parse's to say. */
function literalEnd(text: string, start: number): number {
  LITERAL.lastIndex = start;
  return start + (LITERAL.exec(text)?.[0].length ?? 0);
}

/** What JSON calls white space. */
function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09 || code === 0x0d || code === 0x0a;
}
