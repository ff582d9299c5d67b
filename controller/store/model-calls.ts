/**
 * Calls of models in the store: each once, at its end, with the verdict over its prefix, and never changed. The newest
 * of each owner are kept one by one; what all of them add up to is kept beside them, and loses none.
 */
import * as z from "zod/mini";
import { sumUsage, Usage } from "../../protocol/usage.ts";
import { parsedJson } from "../parsed-json.ts";
import { addSums, CallSums, NO_CALLS, sumsOfCall } from "../relay/call-sums.ts";
import { type Chain, chainOf } from "../relay/chain.ts";
import { ModelCall } from "../relay/model-call.ts";
import { comparePrefix, type PrefixVerdict, UNKNOWN_CHAIN } from "../relay/prefix-verdict.ts";
import { RequestDigest } from "../relay/request-digest.ts";
import { type Budgets, createBudgets } from "./budgets.ts";
import type { Database } from "./sqlite.ts";

/** Calls kept one by one, of each turn, of each member beside its turns, and of each sandbox beside its members. */
export const CALLS_KEPT = 1000;
/** Chains of a member whose last request is kept. Beyond: the longest unused goes, and its next request begins anew. */
export const CHAINS_KEPT = 32;

/** Whose calls: of one turn, one member or one sandbox, with everything below it. */
export type CallsOf = { turn: string } | { member: string } | { sandbox: string };

export interface ModelCalls {
  /** What members may use, and what their running calls have reserved of it. */
  readonly budgets: Budgets;
  /**
   * Gives the call its prefix verdict, and returns it as it was stored. The same id again changes nothing. Each is one
   * durable write: a relay that refuses many calls must not record them all.
   */
  record(call: Omit<ModelCall, "prefix">, digest: RequestDigest | null): ModelCall;
  /** Several in one durable write; none of them when one can't be kept. */
  recordAll(calls: ReadonlyArray<{ call: Omit<ModelCall, "prefix">; digest: RequestDigest | null }>): void;
  /** The newest `limit` of those that are kept one by one, newest first. */
  list(of: CallsOf, limit: number): ModelCall[];
  /** Of all calls there ever were; or only of those in turns that have ended, or of those with no turn of ours. */
  sums(of: CallsOf, part?: "all" | "ended" | "unrequested"): CallSums;
  /** What the CLIs themselves state of the turns that ended and that may have reached them. */
  stated(of: CallsOf): StatedUsage;
}

/** The CLIs' own figures, from the settlements of their turns. */
export interface StatedUsage {
  /** Turns that ended and may have reached the CLI. */
  turns: number;
  /** Of those: turns of which the CLI states both input and output. */
  knownTurns: number;
  /** A counter that one turn lacks is null. */
  usage: Usage;
}

const json = <T extends z.ZodMiniType>(schema: T) =>
  z.pipe(z.string(), z.pipe(z.transform(parsedJson), schema));
const CallRow = z.object({ call: json(ModelCall) });
const UsageRow = z.object({ usage: json(Usage) });
const SumRow = z.object({ sums: json(CallSums) });
const EstimateRow = z.object({ estimate: z.number() });
const ChainRow = z.object({ started_at: z.number(), digest: json(RequestDigest) });

export function createModelCalls(db: Database): ModelCalls {
  function record(given: Omit<ModelCall, "prefix">, digest: RequestDigest | null): ModelCall {
    const known = db.row(CallRow, "SELECT call FROM model_calls WHERE id = ?", given.id);
    if (known !== null) return known.call;
    const isCompared = given.purpose === "generate" && digest !== null;
    const chain = isCompared ? chainOf(given, digest) : null;
    const call = ModelCall.parse({
      ...given,
      prefix: isCompared && chain !== null ? verdictOf(chain, given, digest) : null,
    });
    db.run(
      "INSERT INTO model_calls (id, sandbox, member, turn, call) VALUES (?, ?, ?, ?, ?)",
      call.id,
      call.sandbox,
      call.member,
      call.turn,
      JSON.stringify(call),
    );
    if (isCompared && chain?.kind === "main") keepChain(chain.key, call, digest);
    addToSums(call);
    dropOldest(call);
    return call;
  }

  function verdictOf(
    chain: Chain,
    { startedAt }: Pick<ModelCall, "startedAt">,
    digest: RequestDigest,
  ): PrefixVerdict | null {
    if (chain.kind === "aside") return null;
    if (chain.kind === "unknown") return UNKNOWN_CHAIN;
    const before = db.row(ChainRow, "SELECT started_at, digest FROM request_chains WHERE key = ?", chain.key);
    // Calls are recorded at their ends: one that began before the last recorded one is not what followed it.
    if (before === null || before.started_at > startedAt) return null;
    return comparePrefix(before.digest, digest);
  }

  function keepChain(key: string, { id, member, startedAt, usage }: ModelCall, digest: RequestDigest): void {
    // Its reservation is settled behind its record.
    const reserved = db.row(EstimateRow, "SELECT estimate FROM reservations WHERE call = ?", id);
    const isCounted = reserved !== null && usage.allInputTokens !== null;
    db.run(
      `INSERT INTO request_chains (key, member, used, started_at, digest, estimate, input)
         VALUES (?, ?, (SELECT max(seq) FROM model_calls), ?, ?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET used = excluded.used, started_at = excluded.started_at, digest = excluded.digest,
           estimate = excluded.estimate, input = excluded.input
         WHERE excluded.started_at >= request_chains.started_at`,
      key,
      member,
      startedAt,
      JSON.stringify(digest),
      isCounted ? reserved.estimate : null,
      isCounted ? usage.allInputTokens : null,
    );
    db.run(
      `DELETE FROM request_chains WHERE member = ?1 AND used <=
         (SELECT used FROM request_chains WHERE member = ?1 ORDER BY used DESC LIMIT 1 OFFSET ?2)`,
      member,
      CHAINS_KEPT,
    );
  }

  function addToSums({ sandbox, member, turn, ...call }: ModelCall): void {
    const owner = [sandbox, member ?? "", turn ?? ""] as const;
    const where = "WHERE sandbox = ? AND member = ? AND turn = ?";
    const before = db.row(SumRow, `SELECT sums FROM call_sums ${where}`, ...owner);
    const sums = addSums(before?.sums ?? NO_CALLS, sumsOfCall(call));
    db.run(
      "INSERT INTO call_sums VALUES (?, ?, ?, ?) ON CONFLICT (sandbox, member, turn) DO UPDATE SET sums = excluded.sums",
      ...owner,
      JSON.stringify(sums),
    );
  }

  /** Beyond the number that is kept one by one the oldest of the same owner goes. */
  function dropOldest({ sandbox, member, turn }: ModelCall): void {
    const named = [sandbox, ...(member === null ? [] : [member]), ...(turn === null ? [] : [turn])];
    const where = `WHERE sandbox = ?1 AND member ${member === null ? "IS NULL" : "= ?2"}
      AND turn ${turn === null ? "IS NULL" : `= ?${named.length}`}`;
    db.run(
      `DELETE FROM model_calls ${where} AND seq <=
         (SELECT seq FROM model_calls ${where} ORDER BY seq DESC LIMIT 1 OFFSET ${CALLS_KEPT})`,
      ...named,
    );
  }

  return {
    budgets: createBudgets(db),
    record: (call, digest) => db.write({ sandbox: call.sandbox }, () => record(call, digest)),
    recordAll: (calls) =>
      db.write({ sandboxes: calls.map(({ call }) => call.sandbox) }, () => {
        for (const { call, digest } of calls) record(call, digest);
      }),
    list(of, limit) {
      const [column, id] = whose(of);
      const sql = `SELECT call FROM model_calls WHERE ${column} = ? ORDER BY seq DESC LIMIT ?`;
      return db.rows(CallRow, sql, id, limit).map(({ call }) => call);
    },
    sums(of, part = "all") {
      const [column, id] = whose(of);
      const only = {
        all: "",
        ended: " AND turn IN (SELECT id FROM turns WHERE ended_at IS NOT NULL)",
        unrequested: " AND turn = ''",
      }[part];
      const rows = db.rows(SumRow, `SELECT sums FROM call_sums WHERE ${column} = ?${only}`, id);
      return rows.map(({ sums }) => sums).reduce(addSums, NO_CALLS);
    },
    stated(of) {
      const [column, id] = whose(of);
      const place = { turn: "turns.id", member: "turns.member", sandbox: "members.sandbox" }[column];
      const rows = db.rows(
        UsageRow,
        // The settlement itself may hold megabytes of text.
        `SELECT usage FROM turns JOIN members ON members.id = turns.member WHERE ${place} = ? AND usage IS NOT NULL`,
        id,
      );
      const all = rows.map(({ usage }) => usage);
      const isKnown = ({ inputTokens, outputTokens }: Usage) => inputTokens !== null && outputTokens !== null;
      return { turns: all.length, knownTurns: all.filter(isKnown).length, usage: sumUsage(all) };
    },
  };
}

function whose(of: CallsOf): ["turn" | "member" | "sandbox", string] {
  if ("turn" in of) return ["turn", of.turn];
  return "member" in of ? ["member", of.member] : ["sandbox", of.sandbox];
}
