/**
 * Requests and replies on codex's pipe: JSON-RPC in lines without the `jsonrpc` member. A refusal is a result of its own
 * kind and no error: what follows from it is the caller's to say.
 */
import { HoldfastError } from "../../../protocol/errors.ts";
import { createPipeCalls } from "../stdio/pipe-calls.ts";
import type { Pipe } from "../stdio/resident.ts";
import type { NativeMessage, RequestId } from "./native-message.ts";

export type Answer = Extract<NativeMessage, { kind: "result" | "refused" }>;

/** The code by which we say that a request of codex's is none that we know. */
const METHOD_NOT_FOUND = -32601;

export interface CodexChannel {
  /**
   * Sends and waits, at most `limitMs` (default: the limit of a request). Rejects with CLI_REFUSED after it, with the
   * pipe's own fault when that is lost first.
   * @param onAnswer called with the answer while its line is read, before any later line is; also when it is late
   */
  call(
    method: string,
    params: unknown,
    options?: { limitMs?: number; onAnswer?: (answer: Answer) => void },
  ): Promise<Answer>;
  /** The same for an answer that has to be a result. Rejects with CLI_REFUSED when codex refuses. */
  ask(method: string, params: unknown, limitMs?: number): Promise<unknown>;
  notify(method: string): Promise<void>;
  /** Resolves when the reply to codex's request is in the pipe. */
  reply(request: RequestId, result: unknown): Promise<void>;
  refuse(request: RequestId, why: string): Promise<void>;
  takeAnswer(answer: Answer): void;
  /** The pipe is lost. */
  fail(error: HoldfastError): void;
}

export function openChannel(pipe: Pick<Pipe, "send" | "request">): CodexChannel {
  const { clock, limits } = pipe.request;
  const listeners = new Map<number, (answer: Answer) => void>();
  let last = 0;
  const calls = createPipeCalls<number, Answer>(clock, () => {
    last += 1;
    return last;
  });

  const call: CodexChannel["call"] = (method, params, { limitMs = limits.requestMs, onAnswer } = {}) =>
    calls.call(method, limitMs, (id) => {
      if (onAnswer !== undefined) listeners.set(id, onAnswer);
      return pipe.send({ id, method, params });
    });

  return {
    call,
    async ask(method, params, limitMs = limits.requestMs) {
      const answer = await call(method, params, { limitMs });
      if (answer.kind === "result") return answer.result;
      throw new HoldfastError("CLI_REFUSED", `${method}: ${answer.message.slice(0, 500)}`);
    },
    notify: (method) => pipe.send({ method }),
    reply: (id, result) => pipe.send({ id, result }),
    refuse: (id, message) => pipe.send({ id, error: { code: METHOD_NOT_FOUND, message } }),
    takeAnswer(answer) {
      const listener = listeners.get(answer.id);
      listeners.delete(answer.id);
      listener?.(answer);
      calls.answered(answer.id, answer);
    },
    fail: calls.fail,
  };
}
