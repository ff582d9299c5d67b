/**
 * What a line of a CLI's stdout holds: JSON messages, noise of whoever else wrote there, or damage. Pure, and linear in
 * the line whatever it holds.
 *
 *   {"type":"result",…}                     one message
 *   npm warn something                      noise; so are lists, numbers, texts, and objects that carry no own key
 *   banner v1{"type":"agent_settled"}       noise, and the message that is glued to it
 *   {"type":"a"}{"type":"b"}                two messages
 *   {"type":"resu                           damage: a message was here and can't be read
 *   lt","type":"result"}                    damage: its other half, when something has broken the line in two
 *
 * Damage is never skipped in silence: what was lost may have been the turn's end (public case P28). What stands behind it
 * is not read: it would be out of its order.
 */
import { scanJson } from "./json-scan.ts";

export interface LineReading {
  /** Objects with an own key, in the order in which they stood, up to the damage. */
  messages: Array<Record<string, unknown>>;
  /** What stood around them, joined. */
  noise: string;
  /** The line holds a part of a message that can't be read. */
  isDamaged: boolean;
}

/** Lists and objects of one line: each takes about a hundred bytes. Beyond: damage. */
const CONTAINERS = 1_000_000;

/** @param ownKey the key that each message of this protocol carries, e.g. `type`; several when none is in all */
export function readLine(line: string, ownKey: string | readonly string[]): LineReading {
  const keys = typeof ownKey === "string" ? [ownKey] : ownKey;
  const messages: LineReading["messages"] = [];
  if (isList(line)) return { messages, noise: line.trim(), isDamaged: false };
  let left = CONTAINERS;
  let noise = "";
  /** Begin of what is neither message nor foreign object. */
  let from = 0;
  const damaged = () => ({ messages, noise: (noise + line.slice(from)).trim(), isDamaged: true });

  for (let at = line.indexOf("{"); at >= 0; ) {
    const scan = scanJson(line, at, left);
    left -= scan.containers;
    // A brace alone at the end is how somebody else's object begins that is printed over many lines.
    const isPart = scan.kind === "cut" && line.slice(at + 1).trim() !== "";
    if (isPart || scan.kind === "excess") return damaged();
    const found = scan.kind === "end" ? parseObject(line.slice(at, scan.at)) : null;
    if (found === null) {
      // What begins inside of an object is a part of it; what begins behind a mere brace may be a message.
      at = line.indexOf("{", scan.hasKey ? Math.max(scan.at, at + 1) : at + 1);
      continue;
    }
    if (holdsPart(line.slice(from, at), keys)) return damaged();
    const isOwn = keys.some((key) => Object.hasOwn(found, key));
    noise += line.slice(from, isOwn ? at : scan.at);
    if (isOwn) messages.push(found);
    from = scan.at;
    at = line.indexOf("{", from);
  }
  if (holdsPart(line.slice(from), keys)) return damaged();
  return { messages, noise: (noise + line.slice(from)).trim(), isDamaged: false };
}

/** A whole line that is a list: what is in it is nobody's message. */
function isList(line: string): boolean {
  const start = line.search(/\S/);
  if (line[start] !== "[") return false;
  const scan = scanJson(line, start, CONTAINERS);
  return scan.kind === "end" && line.slice(scan.at).trim() === "";
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    // Not JSON: that is the answer, and its caller says what follows from it.
    return null;
  }
}

/** Whether an own key stands behind an opening brace (a message's head), or before a closing one (its tail). */
function holdsPart(text: string, keys: readonly string[]): boolean {
  const open = text.indexOf("{");
  const close = text.lastIndexOf("}");
  return keys.some((key) => {
    const name = JSON.stringify(key);
    return (open >= 0 && text.includes(name, open)) || (close >= 0 && isBefore(text, `${name}:`, close));
  });
}

function isBefore(text: string, part: string, end: number): boolean {
  const at = text.indexOf(part);
  return at >= 0 && at < end;
}
