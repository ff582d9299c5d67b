/**
 * What a request for a model holds, as digests and sizes: its system text, its tools, its parameters and each block of
 * its history. No text is kept. Marks that a CLI moves from request to request to steer a cache are left out, as they
 * change nothing that the model reads; the raw bytes are digested beside that, in pieces. Which part of a body is what is
 * in one file a protocol. Pure but for the hashing.
 */
import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod/mini";
import { Count, Digest } from "../../protocol/ids.ts";
import { ModelProtocol } from "../../protocol/model-protocol.ts";
import { parsedJson } from "../parsed-json.ts";
import { decodeBody } from "./body-decoder.ts";
import { hintsOf } from "./chain.ts";
import { partsOfChatCompletions } from "./chat-completions-parts.ts";
import { partsOfMessages } from "./messages-parts.ts";
import type { RequestParts } from "./request-parts.ts";
import { partsOfResponses } from "./responses-parts.ts";
import { modelName } from "./words.ts";

/** One body, decoded; a megabyte takes about 15 ms. Beyond: it gets no digest. */
export const DIGESTED_BYTES: number = 16 * 1024 * 1024;
/** Blocks of one request. Beyond: it gets no digest. */
const BLOCKS = 8000;
const RAW_PIECE_BYTES = 1024;
/** Pieces of raw bytes that are digested: the first 4 MiB. What is equal beyond them is not counted. */
const RAW_PIECES = 4096;

/** The first 16 bytes of a SHA-256, as base64url. */
const Short = z.string().check(z.regex(/^[A-Za-z0-9_-]{22}$/));
const Part = z.object({ digest: Short, bytes: Count });
const Hint = z.nullable(z.string().check(z.maxLength(128)));

export const RequestDigest = z.object({
  protocol: ModelProtocol,
  model: z.nullable(z.string().check(z.maxLength(200))),
  /** The native session and agent that the CLI names in its headers; null when it names none. Hints, no proof. */
  session: Hint,
  agent: Hint,
  /** A title or a summary: without tools, or by its last text. None of the conversation. */
  isAside: z.boolean(),
  bodySha256: Digest,
  bodyBytes: Count,
  system: Part,
  tools: z.extend(Part, { count: Count }),
  parameters: Part,
  /** The history in order; `isSummary` on what a CLI puts in the place of a history that it has compacted. */
  blocks: z.array(z.extend(Part, { isSummary: z.boolean() })).check(z.maxLength(BLOCKS)),
  rawPieceBytes: Count,
  rawPieces: z.array(z.string().check(z.maxLength(22))).check(z.maxLength(RAW_PIECES)),
});
export type RequestDigest = z.infer<typeof RequestDigest>;

/**
 * Null for what is no request of the protocol, or too large to look at. Never throws.
 * @param body as it came, with the coding that `content-encoding` names
 */
export function digestRequest(
  protocol: ModelProtocol,
  headers: IncomingHttpHeaders,
  body: Buffer,
): RequestDigest | null {
  const decoded = decodeBody(headers["content-encoding"] ?? null, body, DIGESTED_BYTES);
  const value = decoded === null ? undefined : parsedJson(decoded.toString("utf8"));
  const parts = value === undefined ? null : partsOf(protocol, value);
  if (decoded === null || parts === null || parts.blocks.length > BLOCKS) return null;
  try {
    return {
      protocol,
      model: modelName(parts.model),
      ...hintsOf(headers, parts.sessionKey),
      isAside: parts.tools.length === 0 || parts.asksForSummary,
      bodySha256: hash("sha256", body),
      bodyBytes: body.length,
      system: partOf(parts.system),
      tools: { ...partOf(parts.tools), count: parts.tools.length },
      parameters: partOf(parts.parameters),
      blocks: parts.blocks.map(({ value: block, isSummary }) => ({ ...partOf(block), isSummary })),
      rawPieceBytes: RAW_PIECE_BYTES,
      rawPieces: piecesOf(decoded),
    };
  } catch (error) {
    // What is nested deeper than the stack is parsed, and can't be written again.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function partsOf(protocol: ModelProtocol, body: unknown): RequestParts | null {
  switch (protocol) {
    case "chat-completions":
      return partsOfChatCompletions(body);
    case "responses":
      return partsOfResponses(body);
    case "messages":
      return partsOfMessages(body);
  }
}

/** The keys stay in their order: a provider may render them in it. */
function partOf(value: unknown): { digest: string; bytes: number } {
  const text = JSON.stringify(value) ?? "";
  return { digest: shortDigest(text), bytes: Buffer.byteLength(text) };
}

function piecesOf(body: Buffer): string[] {
  const count = Math.min(RAW_PIECES, Math.floor(body.length / RAW_PIECE_BYTES));
  return Array.from({ length: count }, (_, at) =>
    shortDigest(body.subarray(at * RAW_PIECE_BYTES, (at + 1) * RAW_PIECE_BYTES)).slice(0, 8),
  );
}

function shortDigest(bytes: string | Buffer): string {
  return hash("sha256", bytes, "buffer").toString("base64url", 0, 16);
}
