/**
 * Bytes of a model's stream -> the data of its server-sent events. Fed and returning; knows no socket and no protocol. UTF-8
 * is decoded across chunks; an event beyond the limit is told, and nothing more is taken.
 */
import { createParser } from "eventsource-parser";

export interface SseEvents {
  /** The data of each event that this chunk completed, in order; null once an event was beyond the limit. */
  feed(bytes: Uint8Array): string[] | null;
}

export function createSseEvents(limitChars: number): SseEvents {
  const decoder = new TextDecoder();
  const ready: string[] = [];
  let isBeyond = false;
  const parser = createParser({
    maxBufferSize: limitChars,
    onEvent: ({ data }) => ready.push(data),
    onError(error) {
      // The other kinds (an unknown field, a bad retry) are recoverable and carry nothing that we need.
      if (error.type === "max-buffer-size-exceeded") isBeyond = true;
    },
  });
  return {
    feed(bytes) {
      if (!isBeyond) parser.feed(decoder.decode(bytes, { stream: true }));
      return isBeyond ? null : ready.splice(0);
    },
  };
}
