/** Behaviour that depends on a CLI's version, as data with its reason. Pure. */

export interface VersionRange {
  /** First version that it holds for; null: all before `below`. */
  readonly from: string | null;
  /** First version that it holds for no more; null: all from `from` on. */
  readonly below: string | null;
  /** Why, and where that was seen. */
  readonly reason: string;
}

/** Whether a version of the form `1.2.3` lies in the range. What is not of that form lies in none: it is not pinned. */
export function holdsFor(range: VersionRange, version: string): boolean {
  const parts = partsOf(version);
  if (parts === null) return false;
  const isBefore = (other: string | null) => {
    const limit = other === null ? null : partsOf(other);
    return limit !== null && compare(parts, limit) < 0;
  };
  return !isBefore(range.from) && (range.below === null || isBefore(range.below));
}

function partsOf(version: string): number[] | null {
  return /^\d+(\.\d+)*$/.test(version) ? version.split(".").map(Number) : null;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
