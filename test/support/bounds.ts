// For schema tests: a good sample with one place changed, and whether the schema takes it.
import { changed, without } from "./changed.ts";

interface Schema {
  safeParse(value: unknown): { success: boolean };
}

/** Places and values that the schema should have refused, or the other way round; none when the bounds are right. */
export function wrongBounds(
  schema: Schema,
  sample: unknown,
  bounds: ReadonlyArray<{ at: string; good?: readonly unknown[]; bad?: readonly unknown[] }>,
): string[] {
  const wrong: string[] = [];
  if (!schema.safeParse(sample).success) wrong.push("the sample itself is refused");
  for (const { at, good = [], bad = [] } of bounds) {
    for (const value of good) {
      if (!schema.safeParse(changed(sample, at, value)).success) wrong.push(`${at} refuses ${shown(value)}`);
    }
    for (const value of bad) {
      if (schema.safeParse(changed(sample, at, value)).success) wrong.push(`${at} takes ${shown(value)}`);
    }
  }
  return wrong;
}

/** Fields of the sample without which the schema takes it all the same. */
export function dispensableFields(schema: Schema, sample: object): string[] {
  return Object.keys(sample).filter((field) => schema.safeParse(without(sample, field)).success);
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 60);
}

/** Values that are no count. */
export const NO_COUNTS: readonly unknown[] = [
  -1,
  0.5,
  2 ** 53,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "1",
  null,
  1n,
];

/** Values that are none of our ids. */
export const NO_IDS: readonly unknown[] = [
  "",
  ".",
  "..",
  "-a",
  "a/b",
  "a b",
  "a\n",
  "é",
  "x".repeat(129),
  1,
  null,
];

/** Values that are no native id. */
export const NO_NATIVE_IDS: readonly unknown[] = [
  "",
  "a b",
  "a\u0000",
  "a\n",
  "a\u0085",
  "x".repeat(257),
  1,
  null,
];
