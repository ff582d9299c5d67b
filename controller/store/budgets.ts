/**
 * Allowances: how many tokens a member may use. What a call may take is reserved before it goes out, durable when that
 * returns, and settled when it has ended; what nobody can tell counts as all that was reserved. Off unless one is set.
 */
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import { parsedJson } from "../parsed-json.ts";
import { chainOf } from "../relay/chain.ts";
import { comparePrefix } from "../relay/prefix-verdict.ts";
import { RequestDigest } from "../relay/request-digest.ts";
import { type CountedInput, calibrated } from "../relay/token-estimate.ts";
import type { Database } from "./sqlite.ts";

/** The most that is reserved for one answer. */
const ANSWER_TOKENS = 16_384;

const BudgetRow = z.object({
  limit_tokens: z.number(),
  spent_tokens: z.number(),
  reserved_tokens: z.number(),
});
const Reservation = z.object({ call: z.string(), member: z.string(), tokens: z.number() });

const CountedRow = z.object({
  digest: z.pipe(z.string(), z.pipe(z.transform(parsedJson), RequestDigest)),
  estimate: z.number(),
  input: z.number(),
});

export interface Budget {
  limitTokens: number;
  /** Of calls that have ended since a budget was first set. */
  spentTokens: number;
  /** Of calls that run. */
  reservedTokens: number;
  /** Neither spent nor reserved; never below 0, though a call may use more than was reserved for it. */
  remainingTokens: number;
}

/** Which chain a request belongs to, so that what was counted of the one before it corrects its estimate. */
interface EstimatedRequest {
  nativeId: string | null;
  digest: RequestDigest | null;
}

export interface Budgets {
  /** Null takes it away; what was spent is then forgotten. Throws MEMBER_UNKNOWN, REQUEST_INVALID. */
  set(member: string, limitTokens: number | null): void;
  of(member: string): Budget | null;
  /**
   * Reserves what the call's input is estimated at and what is left for its answer, at most 16384. False when not both
   * fit: then nothing is reserved, and nothing may be sent. True without a reservation for a member that has no budget.
   */
  reserve(call: string, member: string, inputTokens: number, request?: EstimatedRequest): boolean;
  /** @param usedTokens null when nobody can tell: then all that was reserved is spent. No effect without a reservation. */
  settle(call: string, usedTokens: number | null): void;
  /** Of a controller that has ended: nobody can tell what became of its calls. */
  settleLeft(): void;
}

export function createBudgets(db: Database): Budgets {
  function of(member: string): Budget | null {
    const row = db.row(
      BudgetRow,
      `SELECT limit_tokens, spent_tokens, (SELECT coalesce(sum(tokens), 0) FROM reservations r WHERE r.member = b.member)
         AS reserved_tokens FROM budgets b WHERE member = ?`,
      member,
    );
    if (row === null) return null;
    const { limit_tokens: limitTokens, spent_tokens: spentTokens, reserved_tokens: reservedTokens } = row;
    const remainingTokens = Math.max(0, limitTokens - spentTokens - reservedTokens);
    return { limitTokens, spentTokens, reservedTokens, remainingTokens };
  }

  function countedBefore(member: string, { nativeId, digest }: EstimatedRequest): CountedInput | null {
    const chain = digest === null ? null : chainOf({ member, nativeId }, digest);
    if (digest === null || chain?.kind !== "main") return null;
    const sql = "SELECT digest, estimate, input FROM request_chains WHERE key = ? AND estimate IS NOT NULL";
    const before = db.row(CountedRow, sql, chain.key);
    if (before === null || comparePrefix(before.digest, digest).verdict !== "equal") return null;
    return { estimate: before.estimate, input: before.input };
  }

  function settle({ call, member, tokens }: z.infer<typeof Reservation>, usedTokens: number | null): void {
    db.run("DELETE FROM reservations WHERE call = ?", call);
    db.run(
      "UPDATE budgets SET spent_tokens = spent_tokens + ? WHERE member = ?",
      usedTokens ?? tokens,
      member,
    );
  }

  return {
    of,
    set(member, limitTokens) {
      if (limitTokens !== null && (!Number.isSafeInteger(limitTokens) || limitTokens < 0))
        throw new HoldfastError("REQUEST_INVALID", "a budget is a whole number of tokens from 0");
      db.write({ member }, () => {
        const known = db.row(z.object({ id: z.string() }), "SELECT id FROM members WHERE id = ?", member);
        if (known === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${member}`);
        if (limitTokens === null) db.run("DELETE FROM budgets WHERE member = ?", member);
        else
          db.run(
            `INSERT INTO budgets VALUES (?1, ?2, 0) ON CONFLICT (member) DO UPDATE SET limit_tokens = ?2`,
            member,
            limitTokens,
          );
      });
    },
    reserve: (call, member, estimate, request) =>
      db.write({ member }, () => {
        const budget = of(member);
        if (budget === null) return true;
        const inputTokens = calibrated(
          estimate,
          request === undefined ? null : countedBefore(member, request),
        );
        const left = budget.limitTokens - budget.spentTokens - budget.reservedTokens - inputTokens;
        if (left < 1) return false;
        const tokens = inputTokens + Math.min(left, ANSWER_TOKENS);
        const sql = "INSERT INTO reservations (call, member, tokens, estimate) VALUES (?, ?, ?, ?)";
        db.run(sql, call, member, tokens, estimate);
        return true;
      }),
    settle(call, usedTokens) {
      const open = db.row(Reservation, "SELECT * FROM reservations WHERE call = ?", call);
      if (open !== null) db.write({ member: open.member }, () => settle(open, usedTokens));
    },
    settleLeft() {
      for (const each of db.rows(
        Reservation,
        `SELECT * FROM reservations WHERE member IN (SELECT id FROM members WHERE ${db.mine("sandbox")})`,
      ))
        db.write({ member: each.member }, () => settle(each, null));
    },
  };
}
