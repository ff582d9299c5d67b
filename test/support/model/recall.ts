// Recall mode: answers from the received history alone, so that a right answer proves that the history was
// really sent. Pure; looks at nothing but the user's texts in the request.
import type { Position } from "./history.ts";

const WORD = "(?:code|secret|magic)[ -]?word";
const VALUE = String.raw`["'“‘\x60*]*([\p{L}\p{N}](?:[\p{L}\p{N}_-]*[\p{L}\p{N}])?)`;
// "Tell me what the code word is now" asks; it does not say that the word is "now".
const STATEMENT = new RegExp(String.raw`(?<!\bwhat (?:the|my|our) )\b${WORD}\s*(?:is|=|:)\s*${VALUE}`, "giu");
const MENTION = new RegExp(String.raw`\b${WORD}\b`, "iu");
const ASKING = /\?|\b(?:what|which|tell|repeat|recall|remember|remind|say|give|name|state|answer|reply)\b/iu;

export function recall(position: Position): string {
  const text = position.lastText;
  const told = toldWord(text);
  if (told !== null) return `Noted: ${told}.`;
  if (!MENTION.test(text) || !ASKING.test(text)) return "All right.";
  for (const earlier of position.earlierTexts.toReversed()) {
    const word = toldWord(earlier);
    if (word !== null) return `The code word is ${word}.`;
  }
  return "I can't find a code word in this conversation.";
}

/** The last word that the text states, or null. */
function toldWord(text: string): string | null {
  return [...text.matchAll(STATEMENT)].at(-1)?.[1] ?? null;
}
