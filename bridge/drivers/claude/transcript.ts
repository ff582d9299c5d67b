/**
 * Whether the last settled turn is in the history that Claude Code continues from, judged from its transcript: rows of JSON
 * linked by `parentUuid`. Pure. The rules are the CLI's own loader's (read in 2.1.220 and 2.1.332, and tried):
 *
 *   - a line that is not whole JSON is not there, and neither is what was joined to it (public case P23);
 *   - it continues from the last row of the main chain; or from the leaf that the last `last-prompt` names, if that last
 *     row does not descend from it, or if it was set on purpose;
 *   - rows of one message of the model (one a content block, tool calls side by side) are loaded together.
 *
 * Where a row before the tail can't be read the CLI continues without it, and without all before it (2.1.220) or just
 * without it (2.1.332), and says nothing of it: both measured.
 *
 * A dead branch (a retry on versions below 2.1.269, a second process) is so told from the history.
 */
import * as z from "zod/mini";
import type { TailReference } from "../../../protocol/locator.ts";

const Row = z.looseObject({
  type: z.string(),
  uuid: z.optional(z.string()),
  parentUuid: z.nullish(z.string()),
  /** On the boundary of a compaction: what stood before it, and is in its summary now. */
  logicalParentUuid: z.nullish(z.string()),
  isSidechain: z.nullish(z.boolean()),
  message: z.optional(z.looseObject({ id: z.optional(z.string()) })),
  leafUuid: z.nullish(z.string()),
  explicit: z.nullish(z.boolean()),
  subtype: z.nullish(z.string()),
});

interface Link {
  parent: string | null;
  message: string | null;
  /** What is loaded begins with it. */
  isFirst: boolean;
}

export type TailProof =
  | { kind: "proven" }
  | { kind: "absent" }
  | { kind: "on a dead branch" }
  /** The tail is there, and something before it is not. */
  | { kind: "without its beginning" };

/** @param text the transcript, or its end: the first line may be cut */
export function proveTail(text: string, tail: TailReference): TailProof {
  const { links, leaf } = readChain(text);
  const wanted = links.get(tail.id);
  if (wanted === undefined) return { kind: "absent" };
  const isTail = (id: string, { message }: Link) =>
    id === tail.id || (message !== null && message === wanted.message);
  if (![...ancestors(links, leaf)].some(([id, link]) => isTail(id, link)))
    return { kind: "on a dead branch" };
  return { kind: isWhole(links, leaf) ? "proven" : "without its beginning" };
}

/** From the leaf to a row without a parent: the first one, or the boundary of a compaction. */
function isWhole(links: ReadonlyMap<string, Link>, leaf: string | null): boolean {
  for (const [, { parent, isFirst }] of ancestors(links, leaf)) {
    if (isFirst) return true;
    if (parent !== null && !links.has(parent)) return false;
  }
  return true;
}

function readChain(text: string): { links: Map<string, Link>; leaf: string | null } {
  const links = new Map<string, Link>();
  let last: string | null = null;
  let named: string | null = null;
  let isOnPurpose = false;
  for (const line of text.split("\n")) {
    const row = readRow(line);
    if (row === null) continue;
    if (row.type === "last-prompt") {
      isOnPurpose = row.explicit === true || (isOnPurpose && row.leafUuid === named);
      named = row.leafUuid ?? null;
    }
    if (row.uuid === undefined) continue;
    links.set(row.uuid, {
      parent: row.parentUuid ?? row.logicalParentUuid ?? null,
      message: row.message?.id ?? null,
      isFirst: row.parentUuid == null,
    });
    if (row.isSidechain === true) continue;
    last = row.uuid;
    isOnPurpose = false;
    if (row.subtype === "compact_boundary") named = null;
  }
  if (named === null || !links.has(named)) return { links, leaf: last };
  if (isOnPurpose) return { links, leaf: named };
  const descends = last !== null && [...ancestors(links, last)].some(([id]) => id === named);
  return { links, leaf: descends ? last : named };
}

function readRow(line: string): z.infer<typeof Row> | null {
  if (line.trim() === "") return null;
  try {
    const parsed = Row.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : null;
  } catch {
    // The loader skips it too: that is the answer.
    return null;
  }
}

/** From this row to the first one, itself included; a circle ends it. */
function* ancestors(links: ReadonlyMap<string, Link>, from: string | null): Generator<[string, Link]> {
  const seen = new Set<string>();
  for (let at = from; at !== null && !seen.has(at); ) {
    const link = links.get(at);
    if (link === undefined) return;
    seen.add(at);
    yield [at, link];
    at = link.parent;
  }
}
