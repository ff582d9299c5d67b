/**
 * Which events of a stream can say anything that is read: those with one of a few words, as a value or as a key whose
 * value is not null. Most events carry a piece of text alone; to find the others without decoding or parsing each is what
 * lets a large stream be read at the speed at which it passes. Pure.
 */

export interface TellingWords {
  /** Whether a text, once decoded, has one of the words. */
  isIn(text: string): boolean;
  /** For one chunk: where the next of the words begins from there on; the chunk's length when none does. */
  finder(bytes: Buffer): (from: number) => number;
}

const BLANKS: ReadonlySet<number | undefined> = new Set([32, 9]);
const COLON = 58;
const N = 110;

/** @param words as they stand in JSON between their quotes; plain letters, dots and underscores */
export function tellingWords(words: readonly string[]): TellingWords {
  const quoted = words.map(needleOf);
  const pattern = new RegExp(`"(?:${words.join("|").replaceAll(".", "\\.")})"(?![ \\t]*:[ \\t]*n)`);

  return {
    isIn: (text) => pattern.test(text),
    finder(bytes) {
      /** Where each word was found last, at or behind what was asked for last. */
      const found = quoted.map(() => -1);
      return (from) => {
        let first = bytes.length;
        for (const [at, word] of quoted.entries()) {
          let place = found[at] ?? -1;
          if (place < from) place = found[at] = find(bytes, word, from);
          if (place < first) first = place;
        }
        return first;
      };
    },
  };
}

/** A word in its quotes, and the part of it that is looked for: from its rarest character on, where it has one. */
interface Needle {
  whole: Buffer;
  tail: Buffer;
  headBytes: number;
}

function needleOf(word: string): Needle {
  const whole = Buffer.from(`"${word}"`);
  // A quote stands before every name and value of JSON; an underscore or a dot in few of them.
  const headBytes = Math.max(1, whole.indexOf("_"), whole.indexOf("."));
  return { whole, tail: whole.subarray(headBytes), headBytes };
}

/** Where the word begins, from there on; the chunk's length when it does not. */
function find(bytes: Buffer, { whole, tail, headBytes }: Needle, from: number): number {
  for (
    let at = bytes.indexOf(tail, from + headBytes);
    at !== -1;
    at = bytes.indexOf(tail, at + tail.length)
  ) {
    const begin = at - headBytes;
    const isWhole = bytes.compare(whole, 0, headBytes, begin, at) === 0;
    if (isWhole && !isNull(bytes, at + tail.length)) return begin;
  }
  return bytes.length;
}

/** Behind a key stands a null; nothing else that JSON allows there begins with its letter. */
function isNull(bytes: Buffer, from: number): boolean {
  let at = from;
  while (BLANKS.has(bytes[at])) at += 1;
  if (bytes[at] !== COLON) return false;
  at += 1;
  while (BLANKS.has(bytes[at])) at += 1;
  return bytes[at] === N;
}
