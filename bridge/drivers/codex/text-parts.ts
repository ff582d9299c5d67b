/**
 * The text of one turn's answer, by message item. Pure.
 *
 * Deltas come first and the whole text with the item's end, which has the last word. What was told of a stream that
 * codex gives up and tries again is taken back; the next try is another item.
 */
export type TextChange =
  | { kind: "text"; part: string; from: number; text: string }
  | { kind: "withdrawn"; part: string };

export interface TextParts {
  started(item: string): TextChange[];
  delta(item: string, text: string): TextChange[];
  completed(item: string, text: string): TextChange[];
  /** Takes back what has not been completed. */
  withdrawOpen(): TextChange[];
  /** A message was completed. */
  hasAnswer(): boolean;
}

export function createTextParts(): TextParts {
  /** Of items whose end has not come: the part that they are told as, and what was told. */
  const open = new Map<string, { part: string; told: string }>();
  const parts = new Set<string>();
  let hasAnswer = false;

  /** A provider may call every message alike: a part is told under a name of its own. */
  function entry(item: string): { part: string; told: string } {
    const known = open.get(item);
    if (known !== undefined) return known;
    const part = parts.has(item) ? `${item}#${parts.size}` : item;
    const made = { part, told: "" };
    parts.add(part);
    open.set(item, made);
    return made;
  }

  function withdraw(item: string): TextChange[] {
    const known = open.get(item);
    open.delete(item);
    return known === undefined || known.told === "" ? [] : [{ kind: "withdrawn", part: known.part }];
  }

  return {
    started: withdraw,
    delta(item, text) {
      if (text === "") return [];
      const made = entry(item);
      const from = made.told.length;
      made.told += text;
      return [{ kind: "text", part: made.part, from, text }];
    },
    completed(item, text) {
      hasAnswer = true;
      if (text === "" && !open.has(item)) return [];
      const { part, told } = entry(item);
      open.delete(item);
      if (told === text) return [];
      const from = sameBeginning(told, text);
      return [{ kind: "text", part, from, text: text.slice(from) }];
    },
    withdrawOpen: () => [...open.keys()].flatMap(withdraw),
    hasAnswer: () => hasAnswer,
  };
}

function sameBeginning(a: string, b: string): number {
  let at = 0;
  while (at < a.length && at < b.length && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  return at;
}
