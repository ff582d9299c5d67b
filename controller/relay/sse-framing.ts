/**
 * Bytes of a provider's answer -> the data of its server-sent events. Fed and returning; knows no socket and no
 * protocol. An event over the limit is passed over and counted, and reading goes on with the next: what is read here
 * alongside the answer must never end it. (The bridge's reader, which may end its stream, is another one.) Events that can
 * say nothing are passed over without being looked at line by line.
 */
import type { TellingWords } from "./telling-words.ts";

/** One event's lines, in bytes. The last event of OpenAI Responses repeats the whole answer. Beyond: passed over. */
export const EVENT_BYTES: number = 8 * 1024 * 1024;

/** Events that are told whatever is in them: the first ones name the answer and the model. */
const FIRST_EVENTS = 8;

const CR = 13;
const LF = 10;
const MARK = "\u{feff}";

export interface SseFraming {
  take(chunk: Buffer): void;
  /** What the end left without its blank line is told as an event too. */
  end(): void;
  /** Events over the limit so far. */
  readonly skipped: number;
}

export function createSseFraming(options: {
  onData: (data: string) => void;
  /** Behind the first events only those with one of these are told; default: all. */
  words?: TellingWords;
  limitBytes?: number;
}): SseFraming {
  const { words = null } = options;
  const limit = options.limitBytes ?? EVENT_BYTES;
  /** Begun and not ended lines, and the data of the lines that ended. */
  let pieces: Buffer[] = [];
  let data: string[] = [];
  let eventBytes = 0;
  let lineBytes = 0;
  let isSkipping = false;
  let isFirstLine = true;
  /** A carriage return was last: a line feed behind it belongs to it. */
  let wasReturn = false;
  let skipped = 0;
  /** Events with data so far; not counted beyond the first ones. */
  let events = 0;

  function add(piece: Buffer): void {
    if (piece.length === 0) return;
    lineBytes += piece.length;
    eventBytes += piece.length;
    if (isSkipping) return;
    if (eventBytes <= limit) {
      // Copied: a slice would keep the whole chunk.
      pieces.push(Buffer.from(piece));
      return;
    }
    isSkipping = true;
    skipped += 1;
    pieces = [];
    data = [];
  }

  function endLine(): void {
    const isEmpty = lineBytes === 0;
    lineBytes = 0;
    if (isEmpty) return endEvent();
    let line = isSkipping ? "" : Buffer.concat(pieces).toString("utf8");
    pieces = [];
    if (isFirstLine && line.startsWith(MARK)) line = line.slice(1);
    isFirstLine = false;
    if (line === "data") data.push("");
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }

  function endEvent(): void {
    isFirstLine = false;
    const told = data;
    data = [];
    eventBytes = 0;
    isSkipping = false;
    if (told.length === 0) return;
    const text = told.join("\n");
    if (events < FIRST_EVENTS) events += 1;
    else if (words !== null && !words.isIn(text)) return;
    options.onData(text);
  }

  /** From the begin of an event on: the begin of the last one before `end` that follows upon a plain blank line. */
  function lastEvent(chunk: Buffer, from: number, end: number): number {
    const passed = chunk.subarray(from, end);
    const feeds = passed.lastIndexOf("\n\n");
    const pairs = passed.lastIndexOf("\r\n\r\n");
    return from + Math.max(0, feeds === -1 ? 0 : feeds + 2, pairs === -1 ? 0 : pairs + 4);
  }

  return {
    take(chunk) {
      let at = 0;
      if (wasReturn && chunk[0] === LF) at = 1;
      if (chunk.length > 0) wasReturn = false;
      let nextReturn = chunk.indexOf(CR, at);
      const nextWord = words?.finder(chunk) ?? null;
      /** Up to here what could be passed over was. */
      let passedTo = 0;
      while (at < chunk.length) {
        if (nextWord !== null && at >= passedTo && eventBytes === 0 && events === FIRST_EVENTS) {
          passedTo = nextWord(at);
          at = lastEvent(chunk, at, passedTo);
          if (at === chunk.length) return;
        }
        const nextFeed = chunk.indexOf(LF, at);
        if (nextReturn !== -1 && nextReturn < at) nextReturn = chunk.indexOf(CR, at);
        const isReturn = nextReturn !== -1 && (nextFeed === -1 || nextReturn < nextFeed);
        const end = isReturn ? nextReturn : nextFeed;
        if (end === -1) return add(chunk.subarray(at));
        add(chunk.subarray(at, end));
        endLine();
        at = end + 1;
        if (!isReturn) continue;
        if (at === chunk.length) wasReturn = true;
        else if (chunk[at] === LF) at += 1;
      }
    },
    end() {
      if (lineBytes > 0) endLine();
      endEvent();
    },
    get skipped() {
      return skipped;
    },
  };
}
