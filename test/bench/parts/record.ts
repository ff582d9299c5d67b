// The text of one streamed event: its number and when it was sent, so that a reader can tell what is missing and how
// long it took. Every process of a bench reads the same monotonic clock. Pure but for that clock.

/** One event on the wire, "data: " and the empty line included. */
export const EVENT_BYTES = 400;

/** A chunk of this size a write, as a busy server's writes arrive at the reader. */
export const CHUNK_BYTES = 16 * 1024;

const NUMBER_DIGITS = 8;
const TIME_DIGITS = 16;
const HEAD_CHARS = 1 + NUMBER_DIGITS + 1 + TIME_DIGITS + 1;

/** What a prompt asks of the stand-in server. */
export interface Directive {
  events: number;
  /** 0: as fast as they are taken. */
  perSecond: number;
}

export interface NativeIds {
  message: string;
  part: string;
}

export function nowNs(): number {
  return Number(process.hrtime.bigint());
}

/** Native ids have this many characters behind their prefix. */
const ID_CHARS = 26;

export function nativeId(prefix: string, number: number): string {
  return `${prefix}_${String(number).padStart(ID_CHARS, "0")}`;
}

export const SESSION: string = nativeId("ses", 1);

/** Characters of text that one event carries; what is around it has always the same size. */
export const RECORD_CHARS: number =
  EVENT_BYTES -
  Buffer.byteLength(deltaEvent({ message: nativeId("msg", 0), part: nativeId("prt", 0) }, 0, ""));

export function record(number: number, sentNs: number): string {
  const head = `#${String(number).padStart(NUMBER_DIGITS, "0")}@${String(sentNs).padStart(TIME_DIGITS, "0")}|`;
  return `${head.padEnd(RECORD_CHARS - 1, "abcdefghijklmnopqrstuvwxyz ")}.`;
}

/** The so-manieth record of a text that is nothing but records. */
export function recordAt(text: string, at: number): string {
  return text.slice(at * RECORD_CHARS, (at + 1) * RECORD_CHARS);
}

/** Number and time of a record. Throws on a text that is none. */
export function readRecord(text: string): { number: number; sentNs: number } {
  if (
    text[0] !== "#" ||
    text[1 + NUMBER_DIGITS] !== "@" ||
    text[HEAD_CHARS - 1] !== "|" ||
    !text.endsWith(".")
  ) {
    throw new Error(`this is no record: ${text.slice(0, 60)}`);
  }
  return {
    number: Number(text.slice(1, 1 + NUMBER_DIGITS)),
    sentNs: Number(text.slice(2 + NUMBER_DIGITS, HEAD_CHARS - 1)),
  };
}

/** A text delta in the shape of OpenCode 1.18.33 (facts `opencode-kilo`, 3.2), as it is on the wire. */
export function deltaEvent(ids: NativeIds, number: number, text: string): string {
  return wire("message.part.delta", nativeId("evt", number), {
    sessionID: SESSION,
    messageID: ids.message,
    partID: ids.part,
    field: "text",
    delta: text,
  });
}

export function wire(type: string, id: string, properties: unknown): string {
  return `data: ${JSON.stringify({ id, type, properties })}\n\n`;
}

/** So many records, joined and whole, in order? Throws naming the first that is not. */
export function checkWhole(text: string, events: number): void {
  for (let at = 0; at < events; at += 1) {
    const { number } = readRecord(recordAt(text, at));
    if (number !== at) throw new Error(`record ${at} is missing: ${number} stands in its place`);
  }
}
