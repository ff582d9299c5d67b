/**
 * A running server with one session: the shell between the native API and the member. It owns the subscription, the
 * view of the active turn and its timers; it decides nothing about the turn.
 */
import { randomUUID } from "node:crypto";
import { asHoldfastError, HoldfastError } from "../../../protocol/errors.ts";
import type { Evidence } from "../../../protocol/evidence.ts";
import { limited } from "../../limited.ts";
import type { IdentityResult, LaunchRequest, Prompt, Resident, SubmitResult } from "../driver.ts";
import { type ActiveTurn, openActiveTurn } from "./active-turn.ts";
import { messageFate, NEWEST_MESSAGES } from "./history.ts";
import type { NativeEvent } from "./native-event.ts";
import type { ServerProcess } from "./server-process.ts";
import { openSubscription, type Subscription } from "./subscription.ts";

/** Ids of messages of earlier turns, kept so that late events of theirs are known. Beyond: the oldest are forgotten. */
const EARLIER_MESSAGES = 10_000;
const ABORT_POLL_MS = 50;
/** How long an abort waits for the turn to be seen as started; at most half of its own limit. */
const STARTED_MS = 2000;
/** How long a lost stream waits for the news of its process's exit. */
const EXIT_SEEN_MS = 250;

export interface ResidentOptions {
  request: LaunchRequest;
  server: ServerProcess;
  session: string;
  /** Canonical directory of the session. */
  directory: string;
  nextMessageId: (prefix: "msg" | "prt") => string;
}

export function openResident(options: ResidentOptions): Resident {
  const { request, server, session, directory, nextMessageId } = options;
  const { clock, limits, listener } = request;
  const { api } = server;
  const earlierMessages = new Set<string>();
  let subscription: Subscription | null = null;
  let opening: Promise<Subscription> | null = null;
  let canary: { nonce: string; seen: (sequence: number) => void; lost: (reason: string) => void } | null =
    null;
  let turn: ActiveTurn | null = null;
  /** The active turn's one native abort is out. */
  let isAbortAsked = false;
  let isStopping = false;

  void server.process.exited.then((exit) => listener.onExit(exit));

  function evidence(what: string, source: Evidence["source"], detail = ""): Evidence {
    return {
      what,
      source,
      processGeneration: request.processGeneration,
      subscription: subscription?.number ?? null,
      sequence: subscription?.sequence() ?? null,
      at: clock.nowAt(),
      detail,
    };
  }

  function onEvent(event: NativeEvent, sequence: number): void {
    if (event.type === "tui.toast.show" && event.properties.message === canary?.nonce) {
      canary.seen(sequence);
      return;
    }
    turn?.take(event);
  }

  function onLost(reason: string): void {
    const lost = subscription;
    subscription = null;
    if (lost === null || isStopping) return;
    listener.onSubscription(lost.number, "lost", reason);
    canary?.lost(reason);
    const seen = {
      ...evidence("subscription_lost", "stream", reason),
      subscription: lost.number,
      sequence: lost.sequence(),
    };
    const carried = turn;
    if (carried === null) return;
    void exitedSoon().then((hasExited) => {
      // The exit is the cause then, and reports itself.
      if (hasExited || turn !== carried) return;
      listener.onObservation({ kind: "stream_lost", reason, evidence: seen });
    });
  }

  /** A process's death ends its stream too, and often the stream's end is seen first. */
  async function exitedSoon(): Promise<boolean> {
    const late = new Promise<void>((resolve) => clock.after(EXIT_SEEN_MS, resolve));
    await Promise.race([server.process.exited, late]);
    return server.process.hasExited();
  }

  /** The live subscription, made when there is none. Two callers share one attempt. */
  function subscribe(): Promise<Subscription> {
    if (subscription?.isLive()) return Promise.resolve(subscription);
    opening ??= openSubscription({
      http: server.http,
      directory,
      number: request.nextSubscription(),
      clock,
      openMs: limits.requestMs,
      silenceMs: limits.silenceMs,
      onEvent,
      onLost,
    })
      .then((made) => {
        // It may have been lost in the same read in which it opened.
        if (!made.isLive()) throw new HoldfastError("STREAM_LOST", "the stream ended as it opened");
        subscription = made;
        listener.onSubscription(made.number, "live", "");
        return made;
      })
      .finally(() => {
        opening = null;
      });
    return opening;
  }

  async function gate(): Promise<Evidence> {
    try {
      const carrier = await subscribe();
      const nonce = `holdfast-canary-${randomUUID()}`;
      const sentMs = clock.monotonicMs();
      const returned = new Promise<number>((resolve, reject) => {
        const lost = (reason: string) =>
          reject(new HoldfastError("GATE_FAILED", `the stream was lost: ${reason}`));
        canary = { nonce, seen: resolve, lost };
      });
      // The publishing call may fail first; nobody waits for this one then.
      returned.catch(() => undefined);
      const sequence = await limited(
        { clock, limitMs: limits.canaryMs, code: "GATE_FAILED", what: "the canary did not come back" },
        async () => {
          const published = api.publishCanary(directory, nonce, limits.canaryMs);
          const [sequence] = await Promise.all([returned, published]);
          return sequence;
        },
      );
      // It must have come on the subscription that will carry the turn, and that one must still be there.
      if (!carrier.isLive()) throw new HoldfastError("GATE_FAILED", "the stream was lost during the gate");
      const tookMs = Math.round(clock.monotonicMs() - sentMs);
      return {
        ...evidence("canary_returned", "stream", `after ${tookMs} ms`),
        subscription: carrier.number,
        sequence,
      };
    } catch (error) {
      throw new HoldfastError("GATE_FAILED", asHoldfastError(error).message, { cause: error });
    } finally {
      canary = null;
    }
  }

  async function submit(prompt: Prompt): Promise<SubmitResult> {
    isAbortAsked = false;
    turn = openActiveTurn({
      api,
      request,
      session,
      directory,
      ownMessage: prompt.nativeMessage,
      earlierMessages,
      evidence,
      onObservation: (observation) => listener.onObservation(observation),
    });
    try {
      const answer = await api.prompt(session, {
        messageId: prompt.nativeMessage,
        partId: nextMessageId("prt"),
        text: prompt.text,
        model: request.launch.model.name,
      });
      if (answer.status === 204 || answer.status === 200) return { kind: "accepted" };
      const detail = `POST /session/:id/prompt_async answered ${answer.status}`;
      return answer.status >= 400 && answer.status < 500
        ? { kind: "rejected", detail }
        : { kind: "unclear", detail };
    } catch (error) {
      return { kind: "unclear", detail: asHoldfastError(error).message };
    }
  }

  /** The answer of the abort call proves nothing (it is true for idle and unknown sessions): the status is asked. */
  async function abort(): Promise<boolean> {
    const deadlineMs = clock.monotonicMs() + limits.abortMs;
    try {
      await hasStarted();
      isAbortAsked = true;
      await api.abort(session, limits.abortMs);
      for (;;) {
        const busy = await api.busySessions(directory);
        const ours =
          turn === null ? busy.filter((id) => id === session) : busy.filter((id) => turn?.isOurs(id));
        if (ours.length === 0) return true;
        if (clock.monotonicMs() >= deadlineMs) return false;
        await new Promise<void>((resolve) => clock.after(ABORT_POLL_MS, resolve));
      }
    } catch (error) {
      request.log.warn("the native abort failed", { error: asHoldfastError(error).message });
      return false;
    }
  }

  /** Waits, bounded, until the prompt is seen to run: the server answers 204 before the session is busy. */
  async function hasStarted(): Promise<void> {
    const deadlineMs = clock.monotonicMs() + Math.min(STARTED_MS, limits.abortMs / 2);
    while (clock.monotonicMs() < deadlineMs) {
      if (turn === null || turn.hasStarted()) return;
      if ((await api.busySessions(directory)).includes(session)) return;
      await new Promise<void>((resolve) => clock.after(ABORT_POLL_MS, resolve));
    }
  }

  async function holdsMessage(nativeMessage: string): Promise<"absent" | "present" | "unclear"> {
    try {
      return messageFate(await api.messages(session, NEWEST_MESSAGES), nativeMessage);
    } catch (error) {
      request.log.warn("the history could not be asked", { error: asHoldfastError(error).message });
      return "unclear";
    }
  }

  async function verify(): Promise<IdentityResult> {
    try {
      const found = await api.session(session);
      if (found === null) return { kind: "unavailable", detail: "the session is not listed" };
      const seen = evidence("session_by_id", "http", found.directory);
      if (found.id !== session || found.directory !== directory) {
        return { kind: "changed", observed: found.id, evidence: seen };
      }
      return { kind: "verified", nativeId: found.id, evidence: seen };
    } catch (error) {
      return { kind: "unavailable", detail: asHoldfastError(error).message };
    }
  }

  function endTurn(): void {
    for (const id of turn?.close() ?? []) earlierMessages.add(id);
    turn = null;
    while (earlierMessages.size > EARLIER_MESSAGES) {
      const [oldest] = earlierMessages;
      if (oldest !== undefined) earlierMessages.delete(oldest);
    }
  }

  return {
    processGeneration: request.processGeneration,
    nativeId: session,
    directory,
    subscription: () => (subscription?.isLive() ? subscription.number : null),
    hasExited: () => server.process.hasExited(),
    gate,
    nextMessageId: () => nextMessageId("msg"),
    submit,
    abort,
    holdsMessage,
    verify,
    endTurn,
    async stop() {
      isStopping = true;
      const mustAbort = turn !== null && !isAbortAsked;
      endTurn();
      const left = await server.process.stop(limits.stopMs, async () => {
        // OpenCode leaves its shell children behind on any signal: an abort ends them.
        if (mustAbort) await api.abort(session, limits.stopMs);
      });
      subscription?.close();
      server.http.close();
      return left;
    },
  };
}
