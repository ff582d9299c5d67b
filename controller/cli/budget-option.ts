/** `--budget TOKENS`: what it may say. Pure. */
import { HoldfastError } from "../../protocol/errors.ts";

/** Undefined: it was not given, and what is stays. Null, for 0: no budget. Throws USAGE. */
export function readBudget(given: string | undefined): number | null | undefined {
  if (given === undefined) return undefined;
  const tokens = /^\d{1,16}$/.test(given) ? Number(given) : Number.NaN;
  if (!Number.isSafeInteger(tokens))
    throw new HoldfastError("USAGE", `--budget takes a whole number of tokens, not "${given}"`);
  return tokens === 0 ? null : tokens;
}
