/** Our requests to a CLI on its pipe, each with an id, a limit and one end: the answer, the limit, or the pipe's loss. */
import type { Clock } from "../../../protocol/clock.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { limited } from "../../limited.ts";

/** Requests without an answer. Beyond: OVERLOADED. */
const PENDING = 64;

export interface PipeCalls<Id, Answer> {
  /**
   * Sends and waits. Rejects with CLI_REFUSED after the limit, with the fault of `send` when that one fails, with the
   * pipe's own fault when it is lost first. An answer ends it also when `send` has not told its end yet.
   * @param what names the request in errors
   */
  call(what: string, limitMs: number, send: (id: Id) => Promise<void>): Promise<Answer>;
  /** An answer came; false when nobody waits for it (late, doubled, or never asked). */
  answered(id: unknown, answer: Answer): boolean;
  /** The pipe is lost: everything that waits ends with this, and so does each later call. */
  fail(error: HoldfastError): void;
}

export function createPipeCalls<Id extends string | number, Answer>(
  clock: Clock,
  nextId: () => Id,
): PipeCalls<Id, Answer> {
  const waiting = new Map<unknown, PromiseWithResolvers<Answer>>();
  let failure: HoldfastError | null = null;
  return {
    async call(what, limitMs, send) {
      if (failure !== null) throw failure;
      if (waiting.size >= PENDING) throw new HoldfastError("OVERLOADED", `${what}: too many requests wait`);
      const id = nextId();
      const entry = Promise.withResolvers<Answer>();
      waiting.set(id, entry);
      try {
        return await limited({ clock, limitMs, code: "CLI_REFUSED", what }, async () => {
          // A failed write ends the wait; one that is told after the answer changes nothing.
          const sent = send(id);
          sent.catch(entry.reject);
          return entry.promise;
        });
      } finally {
        waiting.delete(id);
      }
    },
    answered(id, answer) {
      const entry = waiting.get(id);
      waiting.delete(id);
      entry?.resolve(answer);
      return entry !== undefined;
    },
    fail(error) {
      failure ??= error;
      for (const entry of waiting.values()) entry.reject(error);
    },
  };
}
