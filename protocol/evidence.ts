/** Evidence: a recorded observation, never a conclusion. */
import * as z from "zod/mini";
import { Count, Instant } from "./ids.ts";
import { LIMITS } from "./limits.ts";

export const Evidence = z.object({
  /** What was seen, in the CLI's or the bridge's own word: `canary_returned`, `session.idle`, `process_exit`, … */
  what: z.string().check(z.maxLength(120)),
  /** Where it was seen: `stream`, `http`, `process`, `history`, `bridge`, `host`. */
  source: z.enum(["stream", "http", "process", "history", "bridge", "host"]),
  /** Numbers of the CLI process and of the subscription, each counted in this member's bridge life; null if none. */
  processGeneration: z.nullable(Count),
  subscription: z.nullable(Count),
  /** Position in that subscription (events so far), or null. */
  sequence: z.nullable(Count),
  at: Instant,
  detail: z.string().check(z.maxLength(LIMITS.reasonChars)),
});
export type Evidence = z.infer<typeof Evidence>;
