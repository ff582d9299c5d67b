/** The assistant text of one turn, part by part, in order and bounded. Pure. */
import { LIMITS } from "../protocol/limits.ts";

export interface TurnOutput {
  /** Puts text into a part at `from`; what was beyond is replaced. */
  put(part: string, from: number, text: string): void;
  withdraw(part: string): void;
  text(part: string): string;
  partIds(): string[];
  parts(): string[];
  isCut(): boolean;
}

/** @param limitChars beyond it text is cut; `isCut` says so */
export function createTurnOutput(limitChars: number = LIMITS.outputChars): TurnOutput {
  const parts = new Map<string, string>();
  let chars = 0;
  let isCut = false;
  return {
    put(part, from, text) {
      const before = parts.get(part) ?? "";
      const kept = from === before.length ? before : before.slice(0, from);
      const room = limitChars - (chars - (before.length - kept.length));
      // Behind a hole that an earlier cut has left nothing is added: a part is always a beginning of the whole one.
      const added = from > before.length ? "" : beginning(text, room);
      if (added.length < text.length) isCut = true;
      const after = kept + added;
      parts.set(part, after);
      chars += after.length - before.length;
    },
    withdraw(part) {
      chars -= parts.get(part)?.length ?? 0;
      parts.delete(part);
    },
    text: (part) => parts.get(part) ?? "",
    partIds: () => [...parts.keys()],
    parts: () => [...parts.values()].filter((text) => text !== ""),
    isCut: () => isCut,
  };
}

/** At most so many UTF-16 units of a text, and never half a surrogate pair at its end. */
function beginning(text: string, chars: number): string {
  if (text.length <= chars) return text;
  const last = text.charCodeAt(chars - 1);
  return text.slice(0, Math.max(0, last >= 0xd800 && last <= 0xdbff ? chars - 1 : chars));
}
