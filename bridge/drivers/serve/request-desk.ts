/**
 * The requests of one turn that wait for an answer (permissions, questions, a provider that is out of reach): each gets
 * one reply, and the reply is seen to take effect.
 *
 *   asked (event or list) ─▶ ours? ─▶ decided at once, by the user, or at the deadline ─▶ reply ─▶ confirmed
 *                             │ no: none                                          ├▶ failed: again, the same ─▶ unresolved
 *                                                                                 └▶ 404, and gone: withdrawn
 *
 * "Success" of a reply call proves nothing: endpoints have answered 200 for ids that they did not know. Only the native's
 * own event, or the request having left the pending list, does. Keyed by session and request: ids repeat.
 */
import type { Clock } from "../../../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../../../protocol/errors.ts";
import { NativeId } from "../../../protocol/ids.ts";
import type { DecidedBy, RequestClosing } from "../../../protocol/question.ts";

/** Replies to one request, the first included. */
const TRIES = 3;
/** How long the native's own event may take before the list is asked. */
const CONFIRM_MS = 1000;
const RETRY_WAIT_MS = 200;
/** Requests of one turn. Beyond: unresolved, and the turn is aborted. */
const REQUESTS = 10_000;

/** A request as the CLI made it. */
export interface NativeAsk {
  id: string;
  session: string;
  /** The tool call that waits for the answer, or null when the CLI names none. */
  call: string | null;
}

/** What differs between the kinds of requests. */
export interface RequestKind<Ask extends NativeAsk, Reply> {
  /** The reply that is given without asking anybody, or null. Called once, when the request is known to be the turn's. */
  decide(ask: Ask): Reply | null;
  /** How long the user may take, and what is replied when nobody did. */
  waitMs(ask: Ask): number;
  expired(ask: Ask): Reply;
  /** The native's own call; `what` names it for reports. */
  send(ask: Ask, reply: Reply, limitMs: number): Promise<{ status: number }>;
  readonly what: string;
  pending(limitMs: number): Promise<ReadonlyArray<{ id: string; sessionID: string }>>;
}

export interface DeskOptions<Ask extends NativeAsk, Reply> {
  kind: RequestKind<Ask, Reply>;
  clock: Clock;
  /** For the replies to one request, tries and confirmation together. */
  limitMs: number;
  /** Whether the session belongs to the turn; asks the server when its ancestry is not known yet. */
  isOurs(session: string): Promise<boolean>;
  /** Whether the tool call that asked has not ended. */
  isAtWork(session: string, call: string): boolean;
  /** `deadlineAt` is null when it is decided at once. */
  onAsked(ask: Ask, deadlineAt: number | null): void;
  onClosed(
    ask: Ask,
    closed: { result: RequestClosing; reply: Reply | null; by: DecidedBy; detail: string },
  ): void;
  onUnresolved(detail: string): void;
}

export interface RequestDesk<Ask extends NativeAsk, Reply> {
  asked(ask: Ask): void;
  /** The native itself reported a reply. */
  replied(session: string, id: string): void;
  /** Throws REQUEST_UNKNOWN for what was never asked here, REQUEST_CLOSED for what has its answer. */
  answer(session: string, id: string, check: (ask: Ask) => Reply): void;
  /** Open requests, of those that wait for the user too. */
  pending(): Ask[];
  /** Nothing is answered any more; what is open is closed in our books, and said so. */
  close(why: string): void;
}

interface Open<Ask, Reply> {
  ask: Ask;
  decision: { reply: Reply; by: NonNullable<DecidedBy> } | null;
  isConfirmed: boolean;
  wake: () => void;
}

type Attempt = { kind: "done" | "failed" | "gone"; detail: string };

export function openRequestDesk<Ask extends NativeAsk, Reply>(
  options: DeskOptions<Ask, Reply>,
): RequestDesk<Ask, Reply> {
  const { kind, clock } = options;
  const open = new Map<string, Open<Ask, Reply>>();
  const seen = new Set<string>();
  /** Those of `seen` that were reported as the turn's. */
  const told = new Set<string>();
  /** Reported as replied before we had opened them: by a sibling's cascade, or by somebody else. */
  const repliedEarly = new Set<string>();
  let isClosed = false;
  const keyOf = (session: string, id: string) => `${session} ${id}`;

  function wait(ms: number, entry: Open<Ask, Reply>): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(ms, resolve);
      entry.wake = () => {
        cancel();
        resolve();
      };
    });
  }

  function finish(entry: Open<Ask, Reply>, result: RequestClosing, detail: string): void {
    if (!open.delete(keyOf(entry.ask.session, entry.ask.id))) return;
    entry.wake();
    const { decision } = entry;
    options.onClosed(entry.ask, { result, reply: decision?.reply ?? null, by: decision?.by ?? null, detail });
    if (result === "unresolved") options.onUnresolved(detail);
  }

  /** Until somebody has decided, or the deadline has. False when it was settled meanwhile. */
  async function decided(entry: Open<Ask, Reply>): Promise<boolean> {
    const deadlineMs = clock.monotonicMs() + kind.waitMs(entry.ask);
    for (;;) {
      if (isClosed) return false;
      if (entry.isConfirmed) {
        finish(entry, "confirmed", "replied event");
        return false;
      }
      if (entry.decision !== null) return true;
      const leftMs = deadlineMs - clock.monotonicMs();
      if (leftMs <= 0) entry.decision = { reply: kind.expired(entry.ask), by: "deadline" };
      else await wait(leftMs, entry);
    }
  }

  async function tryReply(entry: Open<Ask, Reply>, reply: Reply, limitMs: number): Promise<Attempt> {
    let detail: string;
    let isUnknown = false;
    try {
      const answer = await kind.send(entry.ask, reply, limitMs);
      isUnknown = answer.status === 404;
      detail = `${kind.what} answered ${answer.status}`;
    } catch (error) {
      detail = `${kind.what}: ${asHoldfastError(error).message}`;
    }
    if (!entry.isConfirmed && !isClosed) await wait(CONFIRM_MS, entry);
    if (entry.isConfirmed) return { kind: "done", detail: "replied event" };
    try {
      const list = await kind.pending(limitMs);
      const isPending = list.some(
        ({ id, sessionID }) => id === entry.ask.id && sessionID === entry.ask.session,
      );
      if (isPending) return { kind: "failed", detail: `${detail}, and the request is still pending` };
      if (entry.isConfirmed) return { kind: "done", detail: "replied event" };
      return isUnknown ? { kind: "gone", detail } : { kind: "done", detail: "left the pending list" };
    } catch (error) {
      return { kind: "failed", detail: `${detail}; the pending list: ${asHoldfastError(error).message}` };
    }
  }

  /** The CLI knows the request no more and never reported a reply: its tool must have ended, or nothing will end it. */
  async function withdraw(entry: Open<Ask, Reply>, deadlineMs: number, detail: string): Promise<void> {
    const { call, session } = entry.ask;
    while (call !== null && options.isAtWork(session, call)) {
      if (clock.monotonicMs() >= deadlineMs) {
        return finish(entry, "unresolved", `${detail}, and the tool is still at work`);
      }
      await wait(RETRY_WAIT_MS, entry);
      if (isClosed) return;
      if (entry.isConfirmed) return finish(entry, "confirmed", "replied event");
    }
    finish(entry, "withdrawn", `withdrawn by the CLI: ${detail}`);
  }

  async function serve(entry: Open<Ask, Reply>): Promise<void> {
    if (!(await decided(entry)) || entry.decision === null) return;
    const { reply } = entry.decision;
    const deadlineMs = clock.monotonicMs() + options.limitMs;
    let problem = "no try was made";
    for (let tries = 1; tries <= TRIES && !isClosed; tries += 1) {
      const leftMs = deadlineMs - clock.monotonicMs();
      if (leftMs <= 0) break;
      const result = await tryReply(entry, reply, Math.min(leftMs, options.limitMs / TRIES));
      if (isClosed) return;
      if (result.kind === "done") return finish(entry, "confirmed", result.detail);
      if (result.kind === "gone") return withdraw(entry, deadlineMs, result.detail);
      problem = result.detail;
      await wait(RETRY_WAIT_MS, entry);
      if (entry.isConfirmed) return finish(entry, "confirmed", "replied event");
    }
    if (!isClosed) finish(entry, "unresolved", problem);
  }

  async function take(ask: Ask): Promise<void> {
    if (!(await options.isOurs(ask.session)) || isClosed) return;
    const reply = kind.decide(ask);
    const decision = reply === null ? null : { reply, by: "policy" as const };
    const entry: Open<Ask, Reply> = { ask, decision, isConfirmed: false, wake: () => undefined };
    const key = keyOf(ask.session, ask.id);
    open.set(key, entry);
    told.add(key);
    options.onAsked(ask, decision === null ? clock.nowAt() + kind.waitMs(ask) : null);
    if (repliedEarly.has(key)) finish(entry, "confirmed", "replied event");
    else await serve(entry);
  }

  return {
    asked(ask) {
      const key = keyOf(ask.session, ask.id);
      if (isClosed || seen.has(key)) return;
      seen.add(key);
      if (seen.size > REQUESTS) return options.onUnresolved(`more than ${REQUESTS} requests in one turn`);
      if (!NativeId.safeParse(ask.id).success || !NativeId.safeParse(ask.session).success) {
        return options.onUnresolved("a request has an unusable id");
      }
      take(ask).catch((error: unknown) => {
        options.onUnresolved(`a request could not be handled: ${asHoldfastError(error).message}`);
      });
    },
    replied(session, id) {
      const key = keyOf(session, id);
      const entry = open.get(key);
      if (entry === undefined) {
        if (seen.has(key)) repliedEarly.add(key);
        return;
      }
      entry.isConfirmed = true;
      entry.wake();
    },
    answer(session, id, check) {
      const key = keyOf(session, id);
      const entry = open.get(key);
      if (entry === undefined || isClosed) {
        throw new HoldfastError(told.has(key) ? "REQUEST_CLOSED" : "REQUEST_UNKNOWN");
      }
      if (entry.decision !== null || entry.isConfirmed) throw new HoldfastError("REQUEST_CLOSED");
      entry.decision = { reply: check(entry.ask), by: "user" };
      entry.wake();
    },
    pending: () => [...open.values()].map(({ ask }) => ask),
    close(why) {
      if (isClosed) return;
      isClosed = true;
      for (const entry of [...open.values()]) {
        // Confirmed in the same read that ended the turn: it took effect all the same.
        if (entry.isConfirmed) finish(entry, "confirmed", "replied event");
        else finish(entry, "closed_by_end", why);
      }
    },
  };
}
