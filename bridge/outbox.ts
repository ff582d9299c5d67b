/**
 * What goes out on the link next: control events from the journal, in order, and text from the turns' own parts.
 *
 * It holds no text of its own. For events it is a cursor into the journal's unacknowledged ones; for text it knows how
 * much of each part was sent, and keeps an ended turn's parts, which its unacknowledged settlement holds anyway: a link
 * that breaks with them on their way must not cost the reader its text. So a slow or absent controller makes text
 * coalesce in its part and events wait in the journal, and nothing grows here (law 13). Knows no socket: `flush` returns
 * frames.
 */
import type { NumberedEvent } from "../protocol/events.ts";
import { deltaCost, type Frame } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";

/** Events on their way without an acknowledgement. Beyond: they wait in the journal. */
const EVENTS_IN_FLIGHT = 1024;
/** Text of one frame, in UTF-16 units; a longer part takes several. */
const FRAME_CHARS = 256 * 1024;

interface OutPart {
  turn: string;
  part: string;
  /** What the controller has or is being sent, from the part's start. */
  sentChars: number;
  /** The controller's copy is not a beginning of ours: the whole part goes out. */
  needsSnapshot: boolean;
  /** Its text when its turn ended, and the number of that end; null before, when the source has it. */
  last: { text: string; endedSeq: number } | null;
}

export interface OutboxSource {
  /** Events that the controller may not have, in order. */
  unacked(): readonly NumberedEvent[];
  /** Text of a part now; "" when it was withdrawn. */
  textOf(turn: string, part: string): string;
}

export interface Outbox {
  /** A link was taken over: send from here on, and all text of the running turns anew. */
  open(appliedSeq: number): void;
  close(): void;
  /** A part has new text from `from` on, or was withdrawn (`from` 0). */
  touch(turn: string, part: string, from: number): void;
  /** The turn's end is in the journal. Until it is acknowledged its text still goes out, and before it. */
  forget(turn: string): void;
  acknowledged(seq: number): void;
  consumed(bytes: number): void;
  /** The frames that may go out now. */
  flush(): Frame[];
}

export function createOutbox(source: OutboxSource): Outbox {
  const parts = new Map<string, OutPart>();
  const dirty = new Set<string>();
  let isOpen = false;
  let sentSeq = 0;
  let ackedSeq = 0;
  let sentBytes = 0;
  let consumedBytes = 0;

  function drop(key: string): void {
    parts.delete(key);
    dirty.delete(key);
  }

  /** The end of their turn has taken effect: nobody waits for them. */
  function dropAcknowledged(): void {
    for (const [key, out] of parts) if (out.last !== null && out.last.endedSeq <= ackedSeq) drop(key);
  }

  function takeText(frames: Frame[]): void {
    for (const key of dirty) {
      const out = parts.get(key);
      if (out === undefined) {
        dirty.delete(key);
        continue;
      }
      const text = wholePairs(out.last?.text ?? source.textOf(out.turn, out.part));
      while (out.needsSnapshot || out.sentChars < text.length) {
        if (sentBytes - consumedBytes >= LIMITS.windowBytes) return;
        const frame = nextFrame(out, text);
        sentBytes += deltaCost(frame);
        frames.push(frame);
      }
      dirty.delete(key);
    }
  }

  /** Only while the window is full: then a turn's end, and all behind it, waits for its text. */
  function owesText(turn: string): boolean {
    return [...dirty].some((key) => parts.get(key)?.turn === turn);
  }

  function nextFrame(out: OutPart, text: string) {
    const { turn, part } = out;
    const to = cutPoint(text, out.needsSnapshot ? 0 : out.sentChars);
    if (out.needsSnapshot) {
      out.needsSnapshot = false;
      out.sentChars = to;
      return { kind: "snapshot" as const, turn, part, text: text.slice(0, to) };
    }
    const offset = out.sentChars;
    out.sentChars = to;
    return { kind: "delta" as const, turn, part, offset, text: text.slice(offset, to) };
  }

  function takeEvents(frames: Frame[]): void {
    const unacked = source.unacked();
    const first = unacked[0];
    if (first === undefined) return;
    for (let at = Math.max(0, sentSeq + 1 - first.seq); at < unacked.length; at += 1) {
      const entry = unacked[at];
      if (entry === undefined || entry.seq - ackedSeq > EVENTS_IN_FLIGHT) return;
      if (entry.event.type === "turn.ended" && owesText(entry.event.turn)) return;
      frames.push({ kind: "event", entry });
      sentSeq = entry.seq;
    }
  }

  return {
    open(appliedSeq) {
      isOpen = true;
      sentSeq = appliedSeq;
      ackedSeq = appliedSeq;
      sentBytes = 0;
      consumedBytes = 0;
      dropAcknowledged();
      for (const [key, out] of parts) {
        out.needsSnapshot = true;
        out.sentChars = 0;
        dirty.add(key);
      }
    },
    close() {
      isOpen = false;
    },
    touch(turn, part, from) {
      const key = `${turn} ${part}`;
      const known = parts.get(key);
      if (known === undefined)
        parts.set(key, { turn, part, sentChars: 0, needsSnapshot: from > 0, last: null });
      else if (from < known.sentChars) known.needsSnapshot = true;
      dirty.add(key);
    },
    forget(turn) {
      const end = source
        .unacked()
        .findLast(({ event }) => event.type === "turn.ended" && event.turn === turn);
      for (const [key, out] of parts) {
        if (out.turn !== turn) continue;
        if (end === undefined) drop(key);
        else out.last = { text: source.textOf(turn, out.part), endedSeq: end.seq };
      }
    },
    acknowledged(seq) {
      ackedSeq = Math.max(ackedSeq, seq);
      dropAcknowledged();
    },
    consumed(bytes) {
      consumedBytes = Math.max(consumedBytes, bytes);
    },
    flush() {
      if (!isOpen) return [];
      const frames: Frame[] = [];
      takeText(frames);
      takeEvents(frames);
      return frames;
    },
  };
}

/** Where this frame's text ends: never inside a surrogate pair. */
function cutPoint(text: string, from: number): number {
  const to = Math.min(text.length, from + FRAME_CHARS);
  return endsInPair(text, to) ? to - 1 : to;
}

/** Half a pair at the end waits for its other half: alone it would not survive the codec. */
function wholePairs(text: string): string {
  return endsInPair(text, text.length) ? text.slice(0, -1) : text;
}

function endsInPair(text: string, to: number): boolean {
  const last = text.charCodeAt(to - 1);
  return last >= 0xd800 && last <= 0xdbff;
}
