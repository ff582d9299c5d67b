/**
 * The parts of a request body that are compared, in whatever protocol, and what is left out of the comparison: marks
 * that steer a cache, fields that name a run rather than ask for something, and two ways to write one text. Pure.
 */

export interface RequestParts {
  model: unknown;
  system: unknown;
  tools: readonly unknown[];
  parameters: Readonly<Record<string, unknown>>;
  blocks: ReadonlyArray<{ value: unknown; isSummary: boolean }>;
  /** The request is for a summary of the history, though it looks like one of the conversation. */
  asksForSummary: boolean;
  /** A session that the body itself names; null when it names none. */
  sessionKey: string | null;
}

export type Body = Readonly<Record<string, unknown>>;

/** Null for what is no JSON object. */
export function bodyOf(value: unknown): Body | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Body) : null;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

/** Fields that say how the answer is sent or whose it is: no part of what the model reads. */
const ABOUT_THE_CALL: ReadonlySet<string> = new Set([
  "stream",
  "stream_options",
  "metadata",
  "client_metadata",
  "user",
]);

/** Everything at the top that is neither told apart nor about the call alone. */
export function parametersOf(body: Body, parts: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body).filter(([key]) => !parts.includes(key) && !ABOUT_THE_CALL.has(key)),
  );
}

/** Without `cache_control`, which a CLI moves along with the history. */
export function unmarked(value: unknown): unknown {
  const fields = bodyOf(value);
  if (fields === null || !Object.hasOwn(fields, "cache_control")) return value;
  const { cache_control: _, ...rest } = fields;
  return rest;
}

/** A content as its list of blocks, unmarked: one text alone may also be written as a string. */
export function contentBlocks(content: unknown): unknown[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return listOf(content).map(unmarked);
}

/** The messages of the system that lead a list of messages, and the history behind them. */
export function splitSystem(messages: readonly unknown[]): { system: unknown[]; history: unknown[] } {
  const first = messages.findIndex((message) => {
    const role = bodyOf(message)?.role;
    return role !== "system" && role !== "developer";
  });
  const at = first === -1 ? messages.length : first;
  return { system: messages.slice(0, at).map(systemText), history: messages.slice(at) };
}

function systemText(message: unknown): unknown[] {
  return contentBlocks(bodyOf(message)?.content);
}

/**
 * A message as comparable blocks: one a block of its content, the first of them with the role and with what else stands
 * in the message (a call's id, a name), and the calls behind them. What a later request adds to a message's end thus
 * leaves the blocks before it as they were.
 */
export function messageBlocks(message: unknown): Array<{ value: unknown; isSummary: boolean }> {
  const fields = bodyOf(unmarked(message));
  if (fields === null) return [{ value: message, isSummary: false }];
  const { content, tool_calls: calls, ...head } = fields;
  const [first, ...rest] = contentBlocks(content);
  const tail = calls === undefined ? [] : [{ tool_calls: calls }];
  return [{ head, block: first ?? null }, ...rest, ...tail].map((value, at) => ({
    value,
    isSummary: isSummary(at === 0 ? first : value),
  }));
}

/** With which texts Claude Code, Codex and Pi begin the summary of a history that they compacted (measured). */
const SUMMARY_STARTS = [
  "This session is being continued from a previous conversation",
  "Another language model started to solve this problem",
  "The conversation history before this point was compacted",
] as const;

function isSummary(block: unknown): boolean {
  const text = bodyOf(block)?.text;
  return typeof text === "string" && SUMMARY_STARTS.some((start) => text.startsWith(start));
}
