/**
 * What a bridge's hello says about the store: whether its journal goes on where the store is, or one of the two was set
 * back. Pure.
 *
 *   dropped up to `acked` │ still kept │ `seq`          same: acked <= applied <= seq
 */
import type { Cursor } from "../../protocol/frame.ts";

/** A bridge's journal as its hello names it: events up to `acked` are dropped, those up to `seq` can be had. */
export type JournalSight = Cursor & { acked: number };

export interface FollowDecision {
  /** From the next number on the events are taken. */
  applied: number;
  /** What was lost between the two, for the record; null when nothing was. */
  lost: { what: string; reason: string } | null;
}

export function decideFollow(
  known: { journalId: string | null; applied: number },
  journal: JournalSight,
): FollowDecision {
  const { acked, seq } = journal;
  if (known.journalId === null) {
    // What was dropped was acknowledged by a controller that this store knows nothing of.
    return acked === 0 ? { applied: 0, lost: null } : { applied: acked, lost: SET_BACK };
  }
  if (known.journalId !== journal.journalId) return { applied: acked, lost: OTHER };
  if (known.applied > seq) return { applied: seq, lost: ROLLED_BACK };
  if (known.applied < acked) return { applied: acked, lost: SET_BACK };
  return { applied: known.applied, lost: null };
}

const OTHER = { what: "journal_lost", reason: "the bridge's journal is another one" };
const ROLLED_BACK = { what: "journal_lost", reason: "the bridge's journal was rolled back" };
const SET_BACK = {
  what: "store_set_back",
  reason: "the store is older than what the bridge was told to forget",
};
