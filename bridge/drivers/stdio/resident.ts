/**
 * A resident CLI on stdio, as the member sees it: one pipe, one session, one active turn at a time. What differs between
 * the CLIs is in their `PipeSession` and `PipeTurn`; here is what they have in common. The pipe is the subscription: it
 * is live from the first answer on it until it is lost, and is never resumed.
 */
import { asHoldfastError, HoldfastError } from "../../../protocol/errors.ts";
import type { Evidence } from "../../../protocol/evidence.ts";
import type { PermissionReply } from "../../../protocol/permission.ts";
import type { QuestionAnswers } from "../../../protocol/question.ts";
import { limited } from "../../limited.ts";
import type { ProcessExit } from "../../process.ts";
import type {
  IdentityResult,
  LaunchRequest,
  Observation,
  Prompt,
  Resident,
  SubmitResult,
} from "../driver.ts";
import { type LineProcess, startLineProcess } from "./line-process.ts";

/** Everything of one turn that is the CLI's own. */
export interface PipeTurn {
  take(message: Record<string, unknown>, sequence: number): void;
  /** Asks for the turn's end; resolves when the CLI has been asked, or can't be. */
  interrupt(): Promise<void>;
  /** Resolves when nothing of the turn runs any more, by the CLI's own word. */
  readonly ended: Promise<void>;
  answerPermission(session: string, request: string, reply: PermissionReply): void;
  answerQuestion(session: string, request: string, answers: QuestionAnswers | null): void;
  /** Closes what is open, and says so; nothing of it is reported or answered afterwards. */
  close(): void;
}

/** One CLI's session on a pipe. */
export interface PipeSession {
  readonly nativeId: string;
  /** Canonical working directory of the session. */
  readonly directory: string;
  /** Every message of the process, in order, with the active turn or null. */
  take(message: Record<string, unknown>, sequence: number, turn: PipeTurn | null): void;
  /** An own request was answered on the pipe; resolves with what is recorded of it. Throws GATE_FAILED. */
  gate(): Promise<{ what: string; detail: string }>;
  nextMessageId(): string;
  openTurn(prompt: Prompt, report: (observation: Observation) => void): PipeTurn;
  /** A rejection counts as unclear. */
  submit(prompt: Prompt): Promise<SubmitResult>;
  /** A rejection counts as unavailable. */
  verify(): Promise<IdentityResult>;
  mustRetire(): string | null;
  /** The pipe is lost: all that waits for an answer on it ends with this. */
  fail(error: HoldfastError): void;
}

export interface Pipe extends Pick<LineProcess, "send" | "isUsable" | "sequence" | "native"> {
  readonly request: LaunchRequest;
  /** Resolves when the process has ended and all that it printed was read. */
  readonly exited: Promise<ProcessExit>;
  /** Whoever takes the messages from now on; what came before anybody did is handed over first. */
  listen(listener: PipeListener): void;
  evidence(what: string, source: Evidence["source"], detail?: string): Evidence;
  /** The pipe's number as a subscription; null once it is lost. */
  subscription(): number | null;
  /** The pipe has answered: from here on it carries turns. */
  isProven(): void;
  /** Ends the process; stdin's end comes first when `isGraceful`. */
  stop(isGraceful: boolean): ReturnType<LineProcess["stop"]>;
}

interface PipeListener {
  onMessage(message: Record<string, unknown>, sequence: number): void;
  onLost(error: HoldfastError): void;
}

/** Messages kept before anybody listens, and characters of their lines together. Beyond: the pipe is lost. */
const EARLY_MESSAGES = 1000;
const EARLY_CHARS = 33 * 1024 * 1024;

/** Starts the process. Its exit reaches `request.listener` in any case. Throws CLI_NOT_READY, PROCESS_LEFT. */
export async function startPipe(
  request: LaunchRequest,
  options: {
    args: readonly string[];
    environment: Readonly<Record<string, string>>;
    ownKey: string | readonly string[];
    gracefulMs?: number;
  },
): Promise<Pipe> {
  const early: Array<{ message: Record<string, unknown>; sequence: number }> = [];
  let earlyChars = 0;
  const exited = Promise.withResolvers<ProcessExit>();
  let listener: PipeListener | null = null;
  let lost: HoldfastError | null = null;
  const number = request.nextSubscription();

  function lose(error: HoldfastError, state: "lost" | "closed"): void {
    if (lost !== null) return;
    lost = error;
    request.listener.onSubscription(number, state, error.message);
    listener?.onLost(error);
  }

  const line = await startLineProcess({
    request,
    ...options,
    onMessage(message, sequence, chars) {
      if (lost !== null) return;
      if (listener !== null) return listener.onMessage(message, sequence);
      earlyChars += chars;
      if (early.length < EARLY_MESSAGES && earlyChars <= EARLY_CHARS) early.push({ message, sequence });
      else lose(new HoldfastError("OVERLOADED", "the CLI printed too much before it was ready"), "lost");
    },
    onLost: (reason) => lose(new HoldfastError("STREAM_LOST", reason), "lost"),
    onExit(exit) {
      const how = `the CLI ended (code ${exit.code}, signal ${exit.signal})`;
      lose(new HoldfastError("CLI_EXITED", how), "closed");
      exited.resolve(exit);
      request.listener.onExit(exit);
    },
  });

  return {
    request,
    native: line.native,
    exited: exited.promise,
    send: line.send,
    isUsable: () => lost === null && line.isUsable(),
    sequence: line.sequence,
    subscription: () => (lost === null ? number : null),
    evidence: (what, source, detail = "") => ({
      what,
      source,
      processGeneration: request.processGeneration,
      subscription: number,
      sequence: line.sequence(),
      at: request.clock.nowAt(),
      detail,
    }),
    isProven() {
      if (lost === null) request.listener.onSubscription(number, "live", "");
    },
    listen(next) {
      listener = next;
      for (const { message, sequence } of early.splice(0)) next.onMessage(message, sequence);
      if (lost !== null) next.onLost(lost);
    },
    stop: line.stop,
  };
}

export function openPipeResident(pipe: Pipe, session: PipeSession): Resident {
  const { request } = pipe;
  const { clock, limits, listener } = request;
  let turn: PipeTurn | null = null;

  pipe.listen({
    onMessage: (message, sequence) => session.take(message, sequence, turn),
    onLost(error) {
      session.fail(error);
      // An exit is a cause of its own, and reports itself.
      if (turn === null || error.code === "CLI_EXITED") return;
      listener.onObservation({
        kind: "stream_lost",
        reason: error.message,
        evidence: pipe.evidence("pipe_lost", "stream", error.message),
      });
    },
  });

  pipe.isProven();

  async function gate(): Promise<Evidence> {
    if (!pipe.isUsable()) throw new HoldfastError("GATE_FAILED", "the pipe of the CLI is lost");
    try {
      const { what, detail } = await session.gate();
      return pipe.evidence(what, "stream", detail);
    } catch (error) {
      throw new HoldfastError("GATE_FAILED", asHoldfastError(error).message, { cause: error });
    }
  }

  /** True when the CLI itself has said that the turn is over. */
  async function abort(): Promise<boolean> {
    const active = turn;
    if (active === null) return true;
    /** Not before it has been asked: what of the asking is still on its way could meet the next turn. */
    const askAndEnd = async () => {
      try {
        await active.interrupt();
      } catch (error) {
        request.log.warn("the native abort failed", { error: asHoldfastError(error).message });
      }
      await active.ended;
      return true;
    };
    try {
      return await limited(
        { clock, limitMs: limits.abortMs, code: "CLI_REFUSED", what: "the native abort" },
        () => Promise.race([askAndEnd(), pipe.exited.then(() => false)]),
      );
    } catch (error) {
      request.log.warn("the native abort had no end", { error: asHoldfastError(error).message });
      return false;
    }
  }

  /** Never rejects: what is unclear about a prompt is an answer too. */
  async function submit(prompt: Prompt): Promise<SubmitResult> {
    // The stream may have been lost behind the gate, with stdin still open: nothing goes out on half a pipe.
    if (!pipe.isUsable()) return { kind: "rejected", detail: "the pipe of the CLI is lost" };
    try {
      turn = session.openTurn(prompt, listener.onObservation);
      return await session.submit(prompt);
    } catch (error) {
      return { kind: "unclear", detail: asHoldfastError(error).message };
    }
  }

  async function verify(): Promise<IdentityResult> {
    try {
      return await session.verify();
    } catch (error) {
      return { kind: "unavailable", detail: asHoldfastError(error).message };
    }
  }

  function activeTurn(): PipeTurn {
    if (turn === null) throw new HoldfastError("REQUEST_UNKNOWN");
    return turn;
  }

  return {
    processGeneration: request.processGeneration,
    nativeId: session.nativeId,
    directory: session.directory,
    subscription: pipe.subscription,
    hasExited: () => pipe.native.hasExited(),
    mustRetire: session.mustRetire,
    gate,
    nextMessageId: session.nextMessageId,
    submit,
    abort,
    holdsMessage: async () => "unclear",
    verify,
    answerPermission: (asking, id, reply) => activeTurn().answerPermission(asking, id, reply),
    answerQuestion: (asking, id, answers) => activeTurn().answerQuestion(asking, id, answers),
    endTurn() {
      turn?.close();
      turn = null;
    },
    stop() {
      // In a turn the end of stdin may be taken as "finish first": then only signals end it in time.
      const isGraceful = turn === null;
      turn?.close();
      turn = null;
      return pipe.stop(isGraceful);
    },
  };
}
