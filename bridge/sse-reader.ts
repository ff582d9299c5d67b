/**
 * Bytes -> server-sent events. Fed and returning; knows no socket. The only importer of eventsource-parser.
 * UTF-8 is decoded across chunks; an event beyond the limit is an error, never a silent drop.
 */
import { createParser } from "eventsource-parser";
import { HoldfastError } from "../protocol/errors.ts";

/** One event, in characters. Beyond: OUTPUT_LIMIT, and the reader takes nothing more. */
const SSE_EVENT_CHARS = 32 * 1024 * 1024;

export interface SseReader {
  /** The data of each event that this chunk completed, in order. Throws OUTPUT_LIMIT. */
  feed(bytes: Uint8Array): string[];
}

export function createSseReader(limitChars: number = SSE_EVENT_CHARS): SseReader {
  const decoder = new TextDecoder();
  const ready: string[] = [];
  let failure: HoldfastError | null = null;
  const parser = createParser({
    maxBufferSize: limitChars,
    onEvent: (event) => ready.push(event.data),
    onError: (error) => {
      // The other kinds (an unknown field, a bad retry) are recoverable and carry nothing that we need.
      if (error.type === "max-buffer-size-exceeded") {
        failure = new HoldfastError(
          "OUTPUT_LIMIT",
          `an event of the stream exceeds ${limitChars} characters`,
        );
      }
    },
  });
  return {
    feed(bytes) {
      if (failure !== null) throw failure;
      parser.feed(decoder.decode(bytes, { stream: true }));
      if (failure !== null) throw failure;
      return ready.splice(0);
    },
  };
}
