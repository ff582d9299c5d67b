/**
 * The proof of the tail: what codex's record of a thread ("rollout") holds. Pure; fed line by line.
 *
 * Codex loads a thread's history from that file, while `thread/read` and `thread/turns/list` are answered from an index
 * beside it: with most of the file gone they still listed every turn, and the model was sent the rest alone (measured on
 * 0.171.0). So it is the file that is read. Each line has a number; codex leaves out a line that it can't read, and
 * writes the next one under the same number.
 *
 *   {"timestamp":…,"ordinal":0,"type":"session_meta","payload":{"id":"<thread>",…}}
 *   {"timestamp":…,"ordinal":13,"type":"event_msg","payload":{"type":"task_complete","turn_id":"<turn>",…}}
 */
import * as z from "zod/mini";

const Line = z.object({
  ordinal: z.optional(z.number()),
  type: z.string(),
  payload: z.optional(
    z.object({
      type: z.optional(z.unknown()),
      id: z.optional(z.unknown()),
      turn_id: z.optional(z.unknown()),
    }),
  ),
});

/** How a turn's end is recorded: of one that failed as of one that went well, and of one that was ended. */
const ENDS: ReadonlySet<unknown> = new Set(["task_complete", "turn_aborted"]);

export interface RolloutProof {
  line(text: string): void;
  /** Why the history is not the locator's, or null when it is; to be asked behind the last line. */
  problem(): string | null;
}

/** @param turn the last settled one; null when none is known */
export function createRolloutProof(thread: string, turn: string | null): RolloutProof {
  let isOfThread = false;
  let holdsTurn = turn === null;
  let lines = 0;
  let lastOrdinal: number | null = null;
  let gap: string | null = null;

  return {
    line(text) {
      if (text.trim() === "") return;
      const read = readLine(text);
      if (read === null) return;
      const { ordinal = null, type, payload } = read;
      if (lines === 0) isOfThread = type === "session_meta" && payload?.id === thread;
      lines += 1;
      if (ordinal !== null) {
        if (lastOrdinal !== null && ordinal > lastOrdinal + 1)
          gap ??= `lines ${lastOrdinal + 1} to ${ordinal - 1}`;
        lastOrdinal = ordinal;
      }
      if (type === "event_msg" && ENDS.has(payload?.type) && payload?.turn_id === turn) holdsTurn = true;
    },
    problem() {
      if (lines === 0) return "the CLI has no history for the saved id";
      if (!isOfThread) return "the CLI's record is not of the saved id";
      if (!holdsTurn) return "the history lacks the last settled turn";
      return gap === null ? null : `the history lacks ${gap} of the CLI's record`;
    },
  };
}

function readLine(text: string): z.infer<typeof Line> | null {
  try {
    const line = Line.safeParse(JSON.parse(text));
    return line.success ? line.data : null;
  } catch {
    // Cut, or joined to another: codex skips it too, and the numbers around it show whether something is missing.
    return null;
  }
}
