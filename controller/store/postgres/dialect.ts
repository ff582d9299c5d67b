/**
 * The little in which the store's statements differ between the engines. They are written so that both know them;
 * PostgreSQL names parameters by `$n`, and its text takes no zero character. Pure.
 */

/** What a statement is given. */
export type Value = string | number | null | Uint8Array;

/** `?` in their order and `?n` by their number become `$n`; what stands between quotes is left alone. */
export function toPostgres(sql: string): string {
  let next = 0;
  return sql.replace(/'(?:[^']|'')*'|\?(\d*)/g, (found, number: string | undefined) => {
    if (number === undefined) return found;
    if (number !== "") return `$${number}`;
    next += 1;
    return `$${next}`;
  });
}

/**
 * A zero character becomes U+FFFD, as a lone surrogate does in both engines: words of a CLI or a user must not make a
 * record unwritable. Documents are not touched, since JSON escapes it.
 */
export function toValue(value: unknown): Value {
  if (typeof value === "string") return value.includes("\0") ? value.replaceAll("\0", "\uFFFD") : value;
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" || value === null || value instanceof Uint8Array) return value;
  throw new TypeError(`a statement takes no ${typeof value}`);
}

/** A text as a literal, for statements that go out several at once and so take no parameters. */
export function literal(text: string): string {
  return `'${toValue(text)?.toString().replaceAll("'", "''")}'`;
}
