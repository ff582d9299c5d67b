// Decision tables written by hand: one row a line, columns apart by spaces, `*` fits any value, `a|b` fits both.

export type Row = readonly string[];

export function rowsOf(table: string): Row[] {
  return table
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/));
}

/** The rows whose first columns fit these values. A sound table has exactly one for every combination. */
export function fitting(rows: readonly Row[], values: readonly string[]): Row[] {
  return rows.filter((row) =>
    values.every((value, at) => row[at] === "*" || row[at]?.split("|").includes(value)),
  );
}

/** Every combination of one value of each list. */
export function combinations(lists: ReadonlyArray<readonly string[]>): string[][] {
  return lists.reduce<string[][]>(
    (heads, list) => heads.flatMap((head) => list.map((value) => [...head, value])),
    [[]],
  );
}
