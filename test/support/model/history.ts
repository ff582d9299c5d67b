// Reads a received history: what the last user message is, how many rounds followed it, what the request is
// for. Pure, and knows nothing but the request's own body. What a CLI adds to it is left out: additions.ts.
import { createHash } from "node:crypto";
import { startTexts } from "./additions.ts";
import type { NeutralRequest } from "./neutral.ts";

/** `main`: tools offered. Without tools: a session title, a compaction summary, or a `plain` question. */
export type Purpose = "main" | "title" | "summary" | "plain";

export interface Position {
  /** What the turn began with: the user's own text. Where a CLI merges messages, the last of them. */
  readonly lastText: string;
  /** The user's texts before it, oldest first. */
  readonly earlierTexts: readonly string[];
  /** Assistant rows after the last user row: 0 on the first call of a turn, 1 after its first tool round. */
  readonly round: number;
  /** Same for every request of one turn, its retries included. Two sessions that say the same share it. */
  readonly turnKey: string;
}

/** Claude Code and Codex ask for a summary with the tools of the conversation still offered. */
const SUMMARY_PROMPT =
  /^(?:CRITICAL: Respond with TEXT ONLY\.|You are performing a CONTEXT CHECKPOINT COMPACTION\.)/;

export function purposeOf(request: NeutralRequest): Purpose {
  const { lastText } = positionOf(request);
  if (SUMMARY_PROMPT.test(lastText)) return "summary";
  if (request.tools.length > 0) return "main";
  if (/\btitle\b/i.test(request.system)) return "title";
  if (/summar|compact/i.test(request.system) || /<conversation>/i.test(lastText)) return "summary";
  return "plain";
}

export function positionOf(request: NeutralRequest): Position {
  const rows = request.rows.map((row) => ({ row, starts: startTexts(row) }));
  const last = rows.findLastIndex(({ starts }) => starts.length > 0);
  const upTo = rows.slice(0, last + 1);
  const texts = upTo.flatMap(({ starts }) => starts);
  // A CLI may change its additions from one try of a request to the next.
  const said = upTo.flatMap(({ row, starts }): object[] => {
    if (row.role !== "user") return [row];
    return starts.length > 0 ? [starts] : [];
  });
  return {
    lastText: texts.at(-1) ?? "",
    earlierTexts: texts.slice(0, -1),
    round: request.rows.slice(last + 1).filter(({ role }) => role === "assistant").length,
    turnKey: createHash("sha256").update(JSON.stringify(said)).digest("hex"),
  };
}
