// The words between a wire protocol and the rest of the loopback model: a request and a reply that no
// protocol shows through, and the contract that a protocol file fulfils. Types only.
import type { IncomingHttpHeaders } from "node:http";

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** As it stood on the wire: unparsed JSON text. */
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
  readonly stream: boolean;
  /** Whether the caller asked for usage figures in the stream. */
  readonly wantsUsage: boolean;
}

export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedInputTokens: number;
  readonly reasoningTokens: number;
}

export type FinishReason = "stop" | "toolCalls" | "length";

/** A reply as a whole, for callers that don't stream. `finish` null: the end without a reason. */
interface WholeReply {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly finish: FinishReason | null;
  readonly usage: Usage | null;
}

/** Turns the events of one reply into wire text. Keeps what it must know about blocks already open. */
export interface StreamWriter {
  start(): string;
  text(chunk: string): string;
  toolCall(call: ToolCall): string;
  error(message: string): string;
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
  /** The key which the request carries in this protocol's own header, or null. */
  presentedKey(headers: IncomingHttpHeaders): string | null;
  /** Throws a TypeError naming the fault when the body isn't of this protocol. */
  parse(body: unknown): NeutralRequest;
  streamWriter(request: NeutralRequest, replyId: string, createdAt: number): StreamWriter;
  whole(request: NeutralRequest, reply: WholeReply, replyId: string, createdAt: number): unknown;
  error(status: number, message: string): unknown;
  contextOverflow(message: string | undefined): WireError;
}
