/**
 * A text of the model's side, made fit to be shown: no control or format characters, the key in no spelling that was
 * foreseen, a bounded length. Pure. In this order: what is taken out could stand within the key.
 */
import { clip } from "../../protocol/errors.ts";

export type ShowText = (text: string, chars: number) => string;

/** @param key a key that must not be shown, even when the other side sends it back; null when there is none */
export function showWithout(key: string | null): ShowText {
  const spellings = key === null ? [] : spellingsOf(key);
  return (text, chars) => {
    let shown = text.replace(/[\p{Cc}\p{Cf}]/gu, (character) =>
      character === "\n" || character === "\t" ? character : "",
    );
    for (const spelling of spellings) shown = shown.replaceAll(spelling, "[key]");
    return clip(shown, chars);
  };
}

/** As it is, as a URL and JSON carry it, in hex, and in Base64 from each of the three places where it may begin. */
function spellingsOf(key: string): RegExp[] {
  const bytes = Buffer.from(key);
  const base64 = [0, 1, 2].flatMap((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString("base64")
      .replace(/=+$/, "");
    // What lies over the key's ends depends on its neighbours.
    const inner = text.slice(Math.ceil((shift * 8) / 6), -1);
    return inner.length < SHORTEST_BASE64 ? [] : [inner, inner.replaceAll("+", "-").replaceAll("/", "_")];
  });
  const whole = [key, encodeURIComponent(key), JSON.stringify(key).slice(1, -1), bytes.toString("hex")];
  const longestFirst = [...new Set([...whole, ...base64])].sort((one, other) => other.length - one.length);
  return longestFirst.map((text) => new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "gi"));
}

/** Shorter pieces are in every text. */
const SHORTEST_BASE64 = 8;
