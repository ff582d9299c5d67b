/** Chance that can be had again: the same seed gives the same choices. */
export interface Chance {
  /** Below 1, at least 0. */
  next(): number;
  /** A whole number below `end`. */
  below(end: number): number;
  pick<T>(of: readonly T[]): T;
  weighted<T extends { weight: number }>(of: readonly T[]): T;
}

/** Mulberry32: 32 bits of state are plenty for some thousand choices. */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (end: number) => Math.floor(next() * end);
  function pick<T>(of: readonly T[]): T {
    const found = of[below(of.length)];
    if (found === undefined) throw new RangeError("nothing to pick from");
    return found;
  }
  return {
    next,
    below,
    pick,
    weighted(of) {
      let left = next() * of.reduce((sum, { weight }) => sum + weight, 0);
      for (const each of of) {
        left -= each.weight;
        if (left < 0) return each;
      }
      return pick(of);
    },
  };
}
