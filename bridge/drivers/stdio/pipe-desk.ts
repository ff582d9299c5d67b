/**
 * What a CLI on stdio asks during one turn (permissions or questions): each gets one reply, written to its pipe.
 *
 *   asked ─▶ decided at once, by the user, or at the deadline ─▶ written ─▶ confirmed by what the CLI does next
 *                │                                                  ├▶ not taken by the pipe: unresolved
 *                │                                                  └▶ the turn ended first: closed_by_end
 *                └▶ cancelled by the CLI: withdrawn
 *
 * A pipe loses nothing, so a reply is written once: a second one could be taken for the next request. Late, doubled and
 * foreign answers are refused. Ids are the pipe's own space, so one is never asked again: the CLI would wait for an answer
 * to it for ever. (Servers behind HTTP need more: `serve/request-desk.ts`.)
 */
import { type Clock, watchSilence } from "../../../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../../../protocol/errors.ts";
import { NativeId } from "../../../protocol/ids.ts";
import type { DecidedBy, RequestClosing } from "../../../protocol/question.ts";

/** Requests of one turn. Beyond: unresolved, and the turn is aborted. */
const REQUESTS = 10_000;

export interface PipeAsk {
  id: string;
  session: string;
}

export interface PipeDeskOptions<Ask extends PipeAsk, Reply> {
  clock: Clock;
  /** The reply that is given without asking anybody, or null. */
  decide(ask: Ask): Reply | null;
  /** How long the user may take, and what is replied when nobody did. */
  waitMs(ask: Ask): number;
  expired(ask: Ask): Reply;
  /** Resolves when the reply is in the pipe. */
  send(ask: Ask, reply: Reply): Promise<void>;
  /** `deadlineAt` is null when it is decided at once. */
  onAsked(ask: Ask, deadlineAt: number | null): void;
  onClosed(
    ask: Ask,
    closed: { result: RequestClosing; reply: Reply | null; by: DecidedBy; detail: string },
  ): void;
  onUnresolved(detail: string): void;
}

export interface PipeDesk<Ask extends PipeAsk, Reply> {
  asked(ask: Ask): void;
  /** The CLI showed that the reply took effect: it went on with what had waited. */
  confirmed(id: string, detail: string): void;
  /** The CLI takes its request back. */
  cancelled(id: string, detail: string): void;
  /** The user's. Throws REQUEST_UNKNOWN for what was never asked here, REQUEST_CLOSED for what has its answer. */
  answer(session: string, id: string, check: (ask: Ask) => Reply): void;
  /** Those without a decision yet. */
  open(): Ask[];
  /** Replies to whatever is open, as on the way to an abort; resolves when all is in the pipe or can't be. */
  settle(reply: (ask: Ask) => Reply): Promise<void>;
  /** Nothing is answered any more; what is open or not confirmed is closed in our books, and said so. */
  close(why: string): void;
}

interface Entry<Ask, Reply> {
  ask: Ask;
  decision: { reply: Reply; by: DecidedBy } | null;
  isWritten: boolean;
  cancelWait: () => void;
}

export function openPipeDesk<Ask extends PipeAsk, Reply>(
  options: PipeDeskOptions<Ask, Reply>,
): PipeDesk<Ask, Reply> {
  const { clock } = options;
  const entries = new Map<string, Entry<Ask, Reply>>();
  const seen = new Map<string, string>();
  let isClosed = false;

  function finish(entry: Entry<Ask, Reply>, result: RequestClosing, detail: string): void {
    if (!entries.delete(entry.ask.id)) return;
    entry.cancelWait();
    const { decision } = entry;
    options.onClosed(entry.ask, { result, reply: decision?.reply ?? null, by: decision?.by ?? null, detail });
    if (result === "unresolved") options.onUnresolved(detail);
  }

  async function reply(entry: Entry<Ask, Reply>, value: Reply, by: DecidedBy): Promise<void> {
    entry.decision = { reply: value, by };
    entry.cancelWait();
    try {
      await options.send(entry.ask, value);
      entry.isWritten = true;
    } catch (error) {
      finish(entry, "unresolved", `the reply was not taken: ${asHoldfastError(error).message}`);
    }
  }

  return {
    asked(ask) {
      if (isClosed || entries.has(ask.id)) return;
      if (!NativeId.safeParse(ask.id).success || !NativeId.safeParse(ask.session).success) {
        return options.onUnresolved("a request has an unusable id");
      }
      if (seen.has(ask.id)) return options.onUnresolved("the id of a closed request was used again");
      if (seen.size >= REQUESTS) return options.onUnresolved(`more than ${REQUESTS} requests in one turn`);
      seen.set(ask.id, ask.session);
      const entry: Entry<Ask, Reply> = { ask, decision: null, isWritten: false, cancelWait: () => undefined };
      entries.set(ask.id, entry);
      const decided = options.decide(ask);
      if (decided !== null) {
        options.onAsked(ask, null);
        return void reply(entry, decided, "policy");
      }
      const waitMs = options.waitMs(ask);
      options.onAsked(ask, clock.nowAt() + waitMs);
      // An answer that came while the process was frozen is read first (law 13).
      entry.cancelWait = watchSilence(clock, waitMs, () => {
        void reply(entry, options.expired(ask), "deadline");
      }).stop;
    },
    confirmed(id, detail) {
      const entry = entries.get(id);
      // Without a decision of ours it went on by itself: that is no reply of ours that took effect.
      if (entry !== undefined) finish(entry, entry.decision === null ? "withdrawn" : "confirmed", detail);
    },
    cancelled(id, detail) {
      const entry = entries.get(id);
      if (entry !== undefined) finish(entry, "withdrawn", detail);
    },
    answer(session, id, check) {
      const entry = entries.get(id);
      if (seen.get(id) !== session) throw new HoldfastError("REQUEST_UNKNOWN");
      if (entry === undefined || isClosed || entry.decision !== null)
        throw new HoldfastError("REQUEST_CLOSED");
      void reply(entry, check(entry.ask), "user");
    },
    open: () => [...entries.values()].filter(({ decision }) => decision === null).map(({ ask }) => ask),
    async settle(replyOf) {
      const open = [...entries.values()].filter(({ decision }) => decision === null);
      await Promise.all(open.map((entry) => reply(entry, replyOf(entry.ask), null)));
    },
    close(why) {
      if (isClosed) return;
      isClosed = true;
      for (const entry of [...entries.values()]) {
        // Written is not confirmed: nobody has seen that it took effect.
        finish(entry, "closed_by_end", entry.isWritten ? `written; ${why}` : why);
      }
    },
  };
}
