/**
 * Whether a request begins with everything that the one before it in its chain held: what a provider's prefix cache
 * rests on, and what shows that a CLI's history is complete. From digests alone; an equal prefix is no claim that a
 * provider's cache was hit. Pure.
 */
import * as z from "zod/mini";
import { Count } from "../../protocol/ids.ts";
import type { RequestDigest } from "./request-digest.ts";

/** What changed, in the order in which a provider reads a request. */
const PREFIX_BREAKS = ["tools", "system", "parameters", "history", "compaction"] as const;
const PrefixBreak = z.enum(PREFIX_BREAKS);
type PrefixBreak = z.infer<typeof PrefixBreak>;

export const PrefixVerdict = z.object({
  /** `equal`: every earlier block is unchanged. `unknown`: nobody can say which chain it belongs to. */
  verdict: z.enum(["equal", ...PREFIX_BREAKS, "unknown"]),
  /** Everything that changed. The first is the verdict, unless the history was compacted: that explains the others. */
  breaks: z.array(PrefixBreak).check(z.maxLength(PREFIX_BREAKS.length)),
  /** Blocks of the earlier history, and how many of them lead this one unchanged. */
  blocksBefore: Count,
  equalBlocks: Count,
  /** Bytes of the raw body that are the same from its start, at least: counted in whole pieces. */
  equalRawBytes: Count,
});
export type PrefixVerdict = z.infer<typeof PrefixVerdict>;

export const UNKNOWN_CHAIN: PrefixVerdict = {
  verdict: "unknown",
  breaks: [],
  blocksBefore: 0,
  equalBlocks: 0,
  equalRawBytes: 0,
};

export function comparePrefix(before: RequestDigest, after: RequestDigest): PrefixVerdict {
  const equalBlocks = leading(before.blocks, after.blocks, (a, b) => a.digest === b.digest);
  const breaks: PrefixBreak[] = [];
  if (before.tools.digest !== after.tools.digest) breaks.push("tools");
  if (before.system.digest !== after.system.digest) breaks.push("system");
  if (before.parameters.digest !== after.parameters.digest) breaks.push("parameters");
  if (equalBlocks < before.blocks.length) breaks.push(isCompacted(before, after) ? "compaction" : "history");
  return {
    // A compaction also moves what stands before the history (Codex), or what is made from its beginning (Claude Code).
    verdict: breaks.includes("compaction") ? "compaction" : (breaks[0] ?? "equal"),
    breaks,
    blocksBefore: before.blocks.length,
    equalBlocks,
    equalRawBytes: equalRawBytes(before, after),
  };
}

/** A CLI's own summary is there and was not before: the one break of a history that is expected. */
function isCompacted(before: RequestDigest, after: RequestDigest): boolean {
  const known = new Set(before.blocks.map(({ digest }) => digest));
  return after.blocks.some(({ digest, isSummary }) => isSummary && !known.has(digest));
}

function equalRawBytes(before: RequestDigest, after: RequestDigest): number {
  if (before.bodySha256 === after.bodySha256) return after.bodyBytes;
  if (before.rawPieceBytes !== after.rawPieceBytes) return 0;
  return leading(before.rawPieces, after.rawPieces, (a, b) => a === b) * after.rawPieceBytes;
}

function leading<T>(before: readonly T[], after: readonly T[], isSame: (a: T, b: T) => boolean): number {
  const first = before.findIndex((each, at) => {
    const other = after[at];
    return other === undefined || !isSame(each, other);
  });
  return first === -1 ? before.length : first;
}
