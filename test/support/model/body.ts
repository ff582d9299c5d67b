// Reads a request body as exact UTF-8 text, within a limit. Knows no protocol.
import type { IncomingMessage } from "node:http";
import { REQUEST_BODY_MAX_BYTES } from "./limits.ts";

export class BodyFault extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Rejects with a BodyFault, or with the stream's own error when the client goes. */
export async function readBody(message: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of message.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > REQUEST_BODY_MAX_BYTES) throw new BodyFault(413, "the body is too large");
    pieces.push(piece);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces));
  } catch {
    throw new BodyFault(400, "the body is not UTF-8");
  }
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BodyFault(400, "the body is not JSON");
  }
}
