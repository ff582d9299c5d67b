/**
 * The proof of the tail: what codex's record of a thread ("rollout") holds. Pure; fed line by line.
 *
 * Codex loads a thread's history from that file, while `thread/read` and `thread/turns/list` are answered from an index
 * beside it: with most of the file gone they still listed every turn, and the model was sent the rest alone (measured on
 * 0.171.0). So it is the file that is read. Each line has a number; codex leaves out a line that it can't read, and
 * writes the next one under the same number. A fork's record begins where it left its parent's (`history_base`), and that
 * one is read up to there too: codex itself refuses a fork whose parent's record is gone.
 *
 *   {"timestamp":…,"ordinal":0,"type":"session_meta","payload":{"id":"<thread>",…}}
 *   {"timestamp":…,"ordinal":23,"type":"session_meta","payload":{…,"history_base":{"thread_id":"<parent>",…}}}
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
      history_base: z.nullish(z.unknown()),
    }),
  ),
});

/** How a turn's end is recorded: of one that failed as of one that went well, and of one that was ended. */
const ENDS: ReadonlySet<unknown> = new Set(["task_complete", "turn_aborted"]);

/** Another thread's record, of which the beginning is a fork's own. */
const Base = z.object({
  thread_id: z.string().check(z.minLength(1), z.maxLength(256)),
  end_ordinal_exclusive: z.number().check(z.int(), z.nonnegative()),
  end_byte_offset: z.number().check(z.int(), z.nonnegative()),
});
export type RolloutBase = z.infer<typeof Base>;

export interface RolloutProof {
  line(text: string): void;
  /** The record that comes before this one; null for a thread that is no fork. */
  base(): RolloutBase | null;
  holdsTurn(): boolean;
  /**
   * Why the history is not the locator's, or null when it is; to be asked behind the last line.
   * @param turnIsElsewhere another record of the same conversation holds the last settled turn
   */
  problem(turnIsElsewhere?: boolean): string | null;
}

/**
 * @param turn the last settled one; null when none is known
 * @param end number of the line before which a fork of this record begins; null for the whole record
 */
export function createRolloutProof(
  thread: string,
  turn: string | null,
  end: number | null = null,
): RolloutProof {
  let isOfThread = false;
  let holdsTurn = turn === null;
  let base: RolloutBase | null = null;
  let hasBadBase = false;
  let lines = 0;
  let lastOrdinal: number | null = null;
  let gap: string | null = null;

  return {
    line(text) {
      if (text.trim() === "") return;
      const read = readLine(text);
      if (read === null) return;
      const { ordinal = null, type, payload } = read;
      if (lines === 0) {
        isOfThread = type === "session_meta" && payload?.id === thread;
        const named = payload?.history_base ?? null;
        const read = named === null ? null : Base.safeParse(named);
        base = read?.success ? read.data : null;
        hasBadBase = named !== null && base === null;
        // The first line goes on from the base's last one.
        if (base !== null) lastOrdinal = base.end_ordinal_exclusive - 1;
      }
      lines += 1;
      if (ordinal !== null) {
        if (lastOrdinal !== null && ordinal > lastOrdinal + 1)
          gap ??= `lines ${lastOrdinal + 1} to ${ordinal - 1}`;
        lastOrdinal = ordinal;
      }
      if (type === "event_msg" && ENDS.has(payload?.type) && payload?.turn_id === turn) holdsTurn = true;
    },
    base: () => base,
    holdsTurn: () => holdsTurn,
    problem(turnIsElsewhere = false) {
      if (lines === 0) return "the CLI has no history for the saved id";
      if (!isOfThread) return "the CLI's record is not of the saved id";
      if (hasBadBase) return "the CLI's record does not say where it begins";
      if (end !== null && lastOrdinal !== null && lastOrdinal < end - 1)
        gap ??= `lines ${lastOrdinal + 1} to ${end - 1}`;
      if (!holdsTurn && !turnIsElsewhere) return "the history lacks the last settled turn";
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
