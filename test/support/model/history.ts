// Reads a received history: what the last user message is, how many rounds followed it, what the request is
// for. Pure, and knows nothing but the request's own body.
import { createHash } from "node:crypto";
import type { NeutralRequest, Row } from "./neutral.ts";

/** `main`: tools offered. Without tools: a session title, a compaction summary, or a `plain` question. */
export type Purpose = "main" | "title" | "summary" | "plain";

export interface Position {
  readonly lastUser: Row | null;
  /** User rows before the last one, oldest first. */
  readonly earlierUsers: readonly Row[];
  /** Assistant rows after the last user row: 0 on the first call of a turn, 1 after its first tool round. */
  readonly round: number;
  /** Same for every request of one turn, its retries included. Two sessions that say the same share it. */
  readonly turnKey: string;
}

export function purposeOf(request: NeutralRequest): Purpose {
  if (request.tools.length > 0) return "main";
  if (/\btitle\b/i.test(request.system)) return "title";
  const lastUser = request.rows.findLast((row) => row.role === "user")?.text ?? "";
  if (/summar|compact/i.test(request.system) || /<conversation>/i.test(lastUser)) return "summary";
  return "plain";
}

export function positionOf(request: NeutralRequest): Position {
  const last = request.rows.findLastIndex((row) => row.role === "user");
  const upTo = request.rows.slice(0, last + 1);
  return {
    lastUser: request.rows[last] ?? null,
    earlierUsers: upTo.slice(0, -1).filter((row) => row.role === "user"),
    round: request.rows.slice(last + 1).filter((row) => row.role === "assistant").length,
    turnKey: createHash("sha256").update(JSON.stringify(upTo)).digest("hex"),
  };
}
