/**
 * A running server with one session: the shell between the native API and the member. It owns the subscription and the
 * active turn; it decides nothing about the turn.
 */
import { asHoldfastError, HoldfastError } from "../../../protocol/errors.ts";
import type { Evidence } from "../../../protocol/evidence.ts";
import type { IdentityResult, LaunchRequest, Prompt, Resident, SubmitResult } from "../driver.ts";
import { type ActiveTurn, openActiveTurn } from "./active-turn.ts";
import { createCanary } from "./canary.ts";
import { messageFate, NEWEST_MESSAGES } from "./history.ts";
import type { NativeEvent } from "./native-event.ts";
import type { NativeIds } from "./native-id.ts";
import type { ServerProcess } from "./server-process.ts";
import { openSubscription, type Subscription } from "./subscription.ts";
import type { ServeTraits } from "./traits.ts";
import { listPending, type Pending } from "./turn-requests.ts";
import { watchUnrequested } from "./unrequested.ts";

/** Ids of messages of earlier turns, kept so that late events of theirs are known. Beyond: the oldest are forgotten. */
const EARLIER_MESSAGES = 10_000;
const POLL_MS = 50;
/** How long an abort waits for the turn to be seen as started; at most half of its own limit. */
const STARTED_MS = 2000;
/** How long a lost stream waits for the news of its process's exit. */
const EXIT_SEEN_MS = 250;

export interface ResidentOptions {
  traits: ServeTraits;
  request: LaunchRequest;
  server: ServerProcess;
  session: string;
  /** Canonical directory of the session. */
  directory: string;
  ids: NativeIds;
}

export function openResident(options: ResidentOptions): Resident {
  const { traits, request, server, session, directory, ids } = options;
  const { clock, limits, listener } = request;
  const { api } = server;
  const earlierMessages = new Set<string>();
  const unrequested = watchUnrequested((id, state, detail) => listener.onUnrequested(id, state, detail));
  const canary = createCanary({
    clock,
    publish: (nonce, limitMs) => api.publishCanary(directory, nonce, limitMs),
  });
  let subscription: Subscription | null = null;
  let opening: Promise<Subscription> | null = null;
  let cancelWatch: () => void = () => undefined;
  let turn: ActiveTurn | null = null;
  /** The active turn's one native abort is out. */
  let isAbortAsked = false;
  /** What was pending at the last gate: nothing of the turn's that passed it. */
  let ghosts: Pending = { asked: [], questioned: [] };
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
    if (event.type === "tui.toast.show" && canary.returned(event.properties.message, sequence)) return;
    if (event.type === "message.updated") ids.saw(event.properties.info.id);
    if (turn === null) unrequested.take(event);
    else turn.take(event);
  }

  function onLost(reason: string): void {
    const lost = subscription;
    subscription = null;
    cancelWatch();
    if (lost === null || isStopping) return;
    listener.onSubscription(lost.number, "lost", reason);
    canary.lost(reason);
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
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = clock.after(EXIT_SEEN_MS, resolve);
    });
    await Promise.race([server.process.exited, late]);
    cancel();
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
        watchForDeafness(made);
        return made;
      })
      .finally(() => {
        opening = null;
      });
    return opening;
  }

  /** A stream may go on with heartbeats and carry no events: a canary now and then finds that, in a turn and between turns. */
  function watchForDeafness(carrier: Subscription): void {
    cancelWatch = clock.after(limits.canaryEveryMs, () => {
      if (!carrier.isLive()) return;
      canary.send(limits.canaryMs).then(
        () => {
          if (carrier.isLive()) watchForDeafness(carrier);
        },
        (error: unknown) => {
          if (carrier.isLive()) carrier.fail(`a canary did not come back: ${asHoldfastError(error).message}`);
        },
      );
    });
  }

  async function gate(): Promise<Evidence> {
    try {
      ids.check();
      const carrier = await subscribe();
      const sentMs = clock.monotonicMs();
      const [sequence, , pending] = await Promise.all([
        canary.send(limits.canaryMs),
        untilIdle(),
        listPending(api, directory, limits.requestMs),
      ]);
      ghosts = pending;
      // It must have come on the subscription that will carry the turn, and that one must still be there.
      if (!carrier.isLive()) throw new HoldfastError("GATE_FAILED", "the stream was lost during the gate");
      // The stream may have brought one more message on the canary's way.
      ids.check();
      const tookMs = Math.round(clock.monotonicMs() - sentMs);
      return {
        ...evidence("canary_returned", "stream", `after ${tookMs} ms`),
        subscription: carrier.number,
        sequence,
      };
    } catch (error) {
      const fault = asHoldfastError(error);
      if (fault.code === "CLOCK_BEHIND") throw fault;
      throw new HoldfastError("GATE_FAILED", fault.message, { cause: error });
    }
  }

  /** A prompt to a session that works on something of its own would be steered into it, or queued behind it. */
  async function untilIdle(): Promise<void> {
    const deadlineMs = clock.monotonicMs() + limits.requestMs;
    while ((await api.busySessions(directory)).includes(session)) {
      if (clock.monotonicMs() >= deadlineMs) {
        throw new HoldfastError("GATE_FAILED", "the session is busy with something that nobody asked for");
      }
      await wait(POLL_MS);
    }
  }

  async function submit(prompt: Prompt): Promise<SubmitResult> {
    isAbortAsked = false;
    const opened = openActiveTurn({
      api,
      traits,
      request,
      session,
      directory,
      ownMessage: prompt.nativeMessage,
      earlierMessages,
      isAtOtherWork: unrequested.isWorking(session),
      onOtherWork: (type) =>
        unrequested.take({ type: "session.status", properties: { sessionID: session, status: { type } } }),
      evidence,
      onObservation: (observation) => listener.onObservation(observation),
    });
    opened.noteGhosts(ghosts);
    turn = opened;
    unrequested.end("a turn begins");
    try {
      const answer = await api.prompt(session, {
        messageId: prompt.nativeMessage,
        partId: ids.next("prt"),
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
        if (!busy.some((id) => id === session || turn?.isOurs(id))) return true;
        if (clock.monotonicMs() >= deadlineMs) return false;
        await wait(POLL_MS);
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
      await wait(POLL_MS);
    }
  }

  const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));

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

  function activeTurn(): ActiveTurn {
    if (turn === null) throw new HoldfastError("REQUEST_UNKNOWN");
    return turn;
  }

  return {
    processGeneration: request.processGeneration,
    nativeId: session,
    directory,
    subscription: () => (subscription?.isLive() ? subscription.number : null),
    hasExited: () => server.process.hasExited(),
    mustRetire: () => null,
    gate,
    nextMessageId: () => ids.next("msg"),
    submit,
    abort,
    holdsMessage,
    verify,
    answerPermission: (asking, id, reply) => activeTurn().answerPermission(asking, id, reply),
    answerQuestion: (asking, id, answers) => activeTurn().answerQuestion(asking, id, answers),
    endTurn,
    async stop() {
      isStopping = true;
      cancelWatch();
      canary.lost("its process is being stopped");
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
