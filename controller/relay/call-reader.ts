/**
 * Reads a model's answer alongside, from a copy of its bytes: what was used, whether it came to its end, which ids and
 * which model it names. It keeps no text of the answer, never throws and holds at most one event; what it can't read is
 * unknown, and passes to the client all the same. The meaning of the frames is in one file a protocol.
 */
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { parsedJson } from "../parsed-json.ts";
import { createBodyDecoder } from "./body-decoder.ts";
import { readChatCompletions } from "./chat-completions-reading.ts";
import { readMessages } from "./messages-reading.ts";
import type { ProtocolReading, ReadAnswer } from "./reading.ts";
import { readResponses } from "./responses-reading.ts";
import { createSseFraming, EVENT_BYTES } from "./sse-framing.ts";

/** A whole answer, in bytes, decoded. Beyond: it is not read. */
const BODY_BYTES = 32 * 1024 * 1024;

export interface CallReading extends ReadAnswer {
  /** Everything that came was read: no event too long, no coding unknown, no text that is no JSON. */
  isWhollyRead: boolean;
}

export interface CallReader {
  /** The next bytes of the answer's body, as they came from the provider. Never throws. */
  take(chunk: Buffer): void;
  /** At the body's end, or where it was cut. Never rejects; to be called once. */
  end(): Promise<CallReading>;
}

export interface CallReaderOptions {
  protocol: ModelProtocol;
  /** The answer's; null when it has none. What is no event stream by its word is told by its first byte. */
  contentType: string | null;
  /** The answer's `content-encoding`; null when it has none. */
  contentCoding: string | null;
  /** For tests. */
  limits?: { eventBytes: number; bodyBytes: number };
}

export function createCallReader(options: CallReaderOptions): CallReader {
  const { protocol, contentType, contentCoding } = options;
  const limits = options.limits ?? { eventBytes: EVENT_BYTES, bodyBytes: BODY_BYTES };
  const reading = readingOf(protocol);
  let isWhollyRead = true;
  let isStream = /^\s*text\/event-stream/i.test(contentType ?? "") ? true : null;
  let body: Buffer[] = [];
  let bodyBytes = 0;

  const framing = createSseFraming({
    words: reading.words,
    limitBytes: limits.eventBytes,
    onData(data) {
      if (data.trim() === "[DONE]") return;
      const value = parsedJson(data);
      if (value === undefined) isWhollyRead = false;
      else reading.event(value);
    },
  });

  function read(bytes: Buffer): void {
    isStream ??= streamByFirst(bytes);
    if (isStream === true) return framing.take(bytes);
    if (isStream === null) return;
    bodyBytes += bytes.length;
    if (bodyBytes <= limits.bodyBytes) body.push(Buffer.from(bytes));
    else body = [];
  }

  const decoder = createBodyDecoder(contentCoding, read);
  return {
    take: (chunk) => decoder.take(chunk),
    async end() {
      const isDecoded = await decoder.end();
      if (isStream === true) framing.end();
      else if (bodyBytes > 0) {
        const value =
          bodyBytes > limits.bodyBytes ? undefined : parsedJson(Buffer.concat(body).toString("utf8"));
        if (value === undefined) isWhollyRead = false;
        else reading.whole(value);
      }
      return { ...reading.result(), isWhollyRead: isWhollyRead && isDecoded && framing.skipped === 0 };
    },
  };
}

/** Null while only blanks came. */
function streamByFirst(bytes: Buffer): boolean | null {
  for (const byte of bytes) if (byte > 32) return byte !== 0x7b && byte !== 0x5b;
  return null;
}

function readingOf(protocol: ModelProtocol): ProtocolReading {
  switch (protocol) {
    case "chat-completions":
      return readChatCompletions();
    case "responses":
      return readResponses();
    case "messages":
      return readMessages();
  }
}
