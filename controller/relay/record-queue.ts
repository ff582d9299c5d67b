/**
 * Records of calls on their way into the store: those that end while the store writes go together into its next write,
 * so that many ends at once hold up nobody's stream. Each is kept or told of, and budgets are settled behind it.
 */
import type { Budgets } from "../store/budgets.ts";
import type { ModelCalls } from "../store/model-calls.ts";
import type { CallRecord } from "./call-record.ts";
import { isUsageDue } from "./model-call.ts";
import type { RequestDigest } from "./request-digest.ts";

export type CallBook = Pick<ModelCalls, "record" | "recordAll"> & {
  budgets: Pick<Budgets, "of" | "reserve" | "settle">;
};

export interface RecordQueue {
  /** A call begins, whose record is to come. */
  expect(): void;
  take(call: CallRecord, digest: RequestDigest | null): void;
  /** Resolves when all that was expected is kept. */
  settled(): Promise<void>;
}

/** @param onLost told of a record that could not be kept */
export function createRecordQueue(
  book: () => CallBook,
  onLost: (call: CallRecord, why: string) => void,
): RecordQueue {
  let expected = 0;
  let queue: Array<{ call: CallRecord; digest: RequestDigest | null }> = [];
  const waiting: Array<() => void> = [];

  function flush(): void {
    const batch = queue;
    queue = [];
    try {
      book().recordAll(batch);
    } catch {
      // One that can't be kept takes no other one along.
      for (const { call, digest } of batch) orLost(call, () => book().record(call, digest));
    }
    for (const { call } of batch) orLost(call, () => book().budgets.settle(call.id, usedTokens(call)));
    expected -= batch.length;
    if (expected === 0) for (const wake of waiting.splice(0)) wake();
  }

  function orLost(call: CallRecord, step: () => unknown): void {
    try {
      step();
    } catch (error) {
      onLost(call, error instanceof Error ? error.message : String(error));
    }
  }

  return {
    expect() {
      expected += 1;
    },
    take(call, digest) {
      queue.push({ call, digest });
      if (queue.length === 1) setImmediate(flush);
    },
    settled: () => (expected === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  };
}

/** Null when nobody can tell: also for an answer on a path of which no figures are read. */
function usedTokens(call: CallRecord): number | null {
  if (!isUsageDue({ ...call, purpose: "generate" })) return 0;
  const { allInputTokens, allOutputTokens } = call.usage;
  return allInputTokens === null || allOutputTokens === null ? null : allInputTokens + allOutputTokens;
}
