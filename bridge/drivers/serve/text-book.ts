/**
 * The text parts of a turn: whose they are, and what of them is the root's answer. Pure.
 *
 * Roles may come after the parts. Parts of a message without a role wait (bounded), and are decided when the role
 * comes; at the end of the turn the undecided ones are nobody's and are dropped with this book.
 */
import type { NativePart } from "./native-event.ts";

export type TextChange =
  | { kind: "text"; part: string; from: number; text: string }
  | { kind: "withdrawn"; part: string };

type Owner = "answer" | "not_answer";

interface Part {
  message: string;
  /** Unknown until the part itself was seen: deltas of a reasoning part look the same as those of a text. */
  kind: "unknown" | "text" | "other";
  text: string;
  /** What was handed on. */
  told: string;
  isFinished: boolean;
  isSynthetic: boolean;
  isWithdrawn: boolean;
}

/** Characters held for messages without a role. Beyond: all that is held is dropped from the answer. */
export const HELD_CHARS = 8 * 1024 * 1024;

export interface TextBook {
  declare(message: string, role: "user" | "assistant", isSummary: boolean): TextChange[];
  part(part: NativePart): TextChange[];
  delta(message: string, part: string, text: string): TextChange[];
  /** Takes back every part of the answer that was not finished. */
  withdrawUnfinished(): TextChange[];
  /** The CLI took a part, or a whole message, back. */
  removePart(part: string): TextChange[];
  removeMessage(message: string): TextChange[];
  undeclared(): string[];
}

export function createTextBook(earlierMessages: ReadonlySet<string>): TextBook {
  const owners = new Map<string, Owner>();
  const parts = new Map<string, Part>();
  let heldChars = 0;

  function entry(message: string, id: string): Part {
    const known = parts.get(id);
    if (known !== undefined) return known;
    const made: Part = {
      message,
      kind: "unknown",
      text: "",
      told: "",
      isFinished: false,
      isSynthetic: false,
      isWithdrawn: false,
    };
    parts.set(id, made);
    return made;
  }

  /** Hands on what is new of a part, if it is the answer's. */
  function tell(id: string, part: Part): TextChange[] {
    if (owners.get(part.message) !== "answer" || !isTellable(part)) return [];
    if (part.text === part.told) return [];
    const from = part.text.startsWith(part.told) ? part.told.length : 0;
    const text = part.text.slice(from);
    part.told = part.text;
    return [{ kind: "text", part: id, from, text }];
  }

  const isTellable = (part: Part) => part.kind === "text" && !part.isSynthetic && !part.isWithdrawn;

  function hold(message: string, chars: number): void {
    if (owners.has(message)) return;
    heldChars += chars;
    if (heldChars <= HELD_CHARS) return;
    for (const [id, part] of parts) if (!owners.has(part.message)) parts.delete(id);
    heldChars = 0;
  }

  function remove(id: string): TextChange[] {
    const part = parts.get(id);
    parts.delete(id);
    return part === undefined || part.told === "" || part.isWithdrawn
      ? []
      : [{ kind: "withdrawn", part: id }];
  }

  return {
    declare(message, role, isSummary) {
      const owner: Owner = role === "assistant" && !isSummary ? "answer" : "not_answer";
      if (owners.get(message) === owner) return [];
      owners.set(message, owner);
      return [...parts].flatMap(([id, part]) => (part.message === message ? tell(id, part) : []));
    },
    part(native) {
      if (earlierMessages.has(native.messageID)) return [];
      const part = entry(native.messageID, native.id);
      part.kind = native.type === "text" ? "text" : "other";
      if (part.kind === "other") return [];
      const text = native.text ?? "";
      hold(native.messageID, text.length);
      part.isSynthetic = native.synthetic === true || native.metadata?.["kilocode.lifecycle"] === "transient";
      part.isFinished = native.time?.end !== undefined;
      // The first form of a part is empty; what deltas have brought since is not undone by a late copy of it.
      if (text.length >= part.text.length || part.isFinished) part.text = text;
      return tell(native.id, part);
    },
    delta(message, id, text) {
      if (earlierMessages.has(message)) return [];
      const part = entry(message, id);
      if (part.isFinished || part.kind === "other") return [];
      hold(message, text.length);
      const from = part.text.length;
      part.text += text;
      // The common case, without comparing what was told: a long answer would cost its square otherwise.
      const isPlainGrowth = owners.get(message) === "answer" && part.told.length === from;
      if (!isPlainGrowth || !isTellable(part)) return tell(id, part);
      part.told = part.text;
      return [{ kind: "text", part: id, from, text }];
    },
    withdrawUnfinished() {
      return [...parts].flatMap(([id, part]) => {
        if (part.isFinished || part.isWithdrawn || owners.get(part.message) === "not_answer") return [];
        part.isWithdrawn = true;
        return part.told === "" ? [] : [{ kind: "withdrawn" as const, part: id }];
      });
    },
    removePart: remove,
    removeMessage: (message) =>
      [...parts].flatMap(([id, part]) => (part.message === message ? remove(id) : [])),
    undeclared: () => [
      ...new Set([...parts.values()].flatMap(({ message }) => (owners.has(message) ? [] : [message]))),
    ],
  };
}
