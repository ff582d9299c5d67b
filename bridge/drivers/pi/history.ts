/**
 * What pi's records say about a session: where a turn ended, and whether a saved turn is part of what was loaded. Pure.
 * Records form a tree by `parentId`; what the model receives is the path from the leaf to the root, so a record that is
 * in the file and not on that path is as good as lost.
 */
import type { TailReference } from "../../../protocol/locator.ts";
import type { Entries } from "./native-message.ts";

type Entry = Entries["entries"][number];

/** From the leaf back, as far as these records go. `stopsAt` is the record that they hang on, or null for the root. */
function path({ entries, leafId }: Entries): { found: Entry[]; stopsAt: string | null } {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const found: Entry[] = [];
  let at = leafId;
  // Ids come from a file that anybody in the slot can write: a ring must not catch us.
  while (at !== null && found.length <= entries.length) {
    const entry = byId.get(at);
    if (entry === undefined) break;
    found.push(entry);
    at = entry.parentId;
  }
  return { found, stopsAt: at };
}

/** Whether the path from the leaf leads to `id`, by the records that came behind it. */
export function leadsTo(id: string, later: Entries): boolean {
  return path(later).stopsAt === id;
}

/** The last answer among a turn's records; the user's message where there is no answer; null where there is neither. */
export function tailOf(turn: Entries): TailReference | null {
  const { found } = path(turn);
  for (const role of ["assistant", "user"] as const) {
    const entry = found.find(({ type, message }) => type === "message" && message?.role === role);
    if (entry !== undefined) return { role, id: entry.id };
  }
  return null;
}

/** Whether the answer with this time of its own is among the records: one that could not be written is not. */
export function holdsAnswer(turn: Entries, timestamp: number): boolean {
  return path(turn).found.some(
    ({ message }) => message?.role === "assistant" && message.timestamp === timestamp,
  );
}
