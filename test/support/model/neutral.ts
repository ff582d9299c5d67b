// The words between a wire protocol and the rest of the loopback model: a request and a reply that no
// protocol shows through, and the contract that a protocol file fulfils. Types only.
import type { IncomingHttpHeaders } from "node:http";

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** As it stood on the wire: unparsed JSON text; for a freeform tool, its text. */
  readonly arguments: string;
}

interface ToolResult {
  readonly callId: string;
  readonly text: string;
}

/** One message of the history, with its exact text. Tool results always sit in rows of role `tool`. */
export interface Row {
  readonly role: "user" | "assistant" | "tool";
  /** All text parts, joined by a line feed; equal to the one part where there is one. */
  readonly text: string;
  /** The text parts as they came, each exact. */
  readonly texts: readonly string[];
  readonly toolCalls: readonly ToolCall[];
  readonly toolResults: readonly ToolResult[];
}

export interface NeutralRequest {
  readonly model: string;
  readonly system: string;
  readonly rows: readonly Row[];
  /** Names of the offered tools; empty for title and summary requests. */
  readonly tools: readonly string[];
  /** Those of them that are called with a text instead of JSON. */
  readonly freeformTools: readonly string[];
  readonly stream: boolean;
  /** Whether the caller asked for usage figures in the stream. */
  readonly wantsUsage: boolean;
}

export interface Usage {
  /** All of the input: the cached and the newly cached tokens are part of it. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Read from the cache. */
  readonly cachedInputTokens: number;
  /** Written to the cache. */
  readonly cacheWriteTokens: number;
  readonly reasoningTokens: number;
}

export type FinishReason = "stop" | "toolCalls" | "length";

/** Why a provider gives up in the middle of a reply; each protocol has its own word for it. */
export type ErrorReason = "server" | "overloaded" | "rateLimit" | "contextOverflow";

/** A reply as a whole, for callers that don't stream. `finish` null: the end without a reason. */
interface WholeReply {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly finish: FinishReason | null;
  readonly usage: Usage | null;
}

/** Turns the events of one reply into wire text. Keeps what it must know about blocks already open. */
export interface StreamWriter {
  /** `usage` for a protocol that states the input at the start; null: no figures at all. */
  start(usage: Usage | null): string;
  text(chunk: string): string;
  toolCall(call: ToolCall): string;
  error(message: string, reason: ErrorReason): string;
  finish(reason: FinishReason, usage: Usage | null): string;
}

interface WireError {
  readonly status: number;
  readonly body: unknown;
}

/** What a protocol file (Chat Completions, Responses, Messages) offers. Pure: no socket, no clock, no chance. */
export interface WireProtocol {
  readonly name: string;
  /** Path of the one POST route. */
  readonly path: string;
  /** What its providers begin the ids of tool calls with. */
  readonly callPrefix: string;
  /** Whether a streamed reply begins before the history is found too long: then the refusal is in the stream. */
  readonly isOverflowInStream: boolean;
  /** The key which the request carries in this protocol's own header, or null. */
  presentedKey(headers: IncomingHttpHeaders): string | null;
  /** Throws a TypeError naming the fault when the body isn't of this protocol. */
  parse(body: unknown): NeutralRequest;
  streamWriter(request: NeutralRequest, replyId: string, createdAt: number): StreamWriter;
  whole(request: NeutralRequest, reply: WholeReply, replyId: string, createdAt: number): unknown;
  error(status: number, message: string): unknown;
  contextOverflow(message: string): WireError;
  /** What its providers say of a history that is too long. */
  readonly overflowMessage: string;
}
