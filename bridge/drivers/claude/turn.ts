/**
 * The active turn of a Claude Code process: feeds the pure view, keeps its timers, and hands on observations. Ends with
 * `close`, after which nothing of it is reported or answered any more.
 */
import { clip } from "../../../protocol/errors.ts";
import type { TailReference } from "../../../protocol/locator.ts";
import type { Observation } from "../driver.ts";
import { createProviderWaits } from "../provider-waits.ts";
import type { Pipe, PipeTurn } from "../stdio/resident.ts";
import type { Agents } from "./agents.ts";
import type { NativeMessage } from "./native-message.ts";
import { openTurnDesks } from "./turn-desks.ts";
import { createTurnView, type ViewChange } from "./turn-view.ts";

/** When the last subagent is gone, a turn over its result begins 10 to 90 ms later (measured on both pinned versions). */
const SELF_START_MS = 1000;

export interface ClaudeTurnOptions {
  pipe: Pipe;
  session: string;
  directory: string;
  ownMessage: string;
  agents: Agents;
  earlierTail: TailReference | null;
  report(observation: Observation): void;
  /** Sends the CLI's own interrupt; resolves when it has answered. */
  sendInterrupt(): Promise<unknown>;
  /** A request of the main chain is tried again. */
  onRetry(reason: string): void;
  /** What of the conversation stands last now. */
  onTail(tail: TailReference | null): void;
}

export interface ClaudeTurn extends Omit<PipeTurn, "take"> {
  take(message: NativeMessage): void;
  /** The CLI works on it: what it says and asks is this turn's. */
  isRunning(): boolean;
  /** A message can't be read: what it would have decided is not known. */
  broken(why: string): void;
}

export function openClaudeTurn(options: ClaudeTurnOptions): ClaudeTurn {
  const { pipe, session, ownMessage, agents } = options;
  const { clock, limits } = pipe.request;
  const view = createTurnView({ ownMessage, agents, earlierTail: options.earlierTail });
  const started = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let cancelGrace: () => void = () => undefined;
  let isRunning = false;
  let isClosed = false;

  const report = (observation: Observation) => {
    if (!isClosed) options.report(observation);
  };

  const providerWaits = createProviderWaits(clock, limits.providerWaitMs, (reason) =>
    report({
      kind: "provider_late",
      reason,
      evidence: pipe.evidence("provider_late", "bridge", reason),
    }),
  );

  const desks = openTurnDesks({
    pipe,
    root: session,
    directory: options.directory,
    ancestry: agents.ancestry,
    report,
  });

  function onChange(change: ViewChange): void {
    switch (change.kind) {
      case "own_event":
        isRunning = true;
        started.resolve();
        return report({
          kind: "own_event",
          evidence: pipe.evidence(change.what, "stream", ownMessage),
        });
      case "tool":
        if (change.status !== "running") desks.confirmed(change.call);
        return report(change);
      case "progress":
        return providerWaits.forget(change.session);
      case "waiting": {
        const { attempt, delayMs, isMain, reason } = change;
        if (isMain) options.onRetry(`${reason}, attempt ${attempt}`);
        providerWaits.expect(change.session, reason);
        const nextAt = delayMs === null ? null : clock.nowAt() + delayMs;
        return report({ kind: "waiting", reason, attempt, nextAt });
      }
      case "end_expected":
        cancelGrace();
        cancelGrace = clock.after(SELF_START_MS, () => {
          cancelGrace = clock.afterPoll(() => {
            for (const each of view.graceOver()) onChange(each);
          });
        });
        return;
      case "end_not_expected":
        return cancelGrace();
      case "native_end":
        return onEnd(change);
      case "text":
      case "withdrawn":
        return report(change);
      default: {
        const never: never = change;
        throw new TypeError(`change ${String(never)} is not handled`);
      }
    }
  }

  function onEnd({ shells, why, ...end }: Extract<ViewChange, { kind: "native_end" }>): void {
    isRunning = false;
    cancelGrace();
    providerWaits.forgetAll();
    desks.close("the turn ended");
    options.onTail(end.tail);
    const evidence = [pipe.evidence(why, "stream", end.status)];
    if (shells.length > 0) {
      const names = clip(shells.join("; "));
      evidence.push(pipe.evidence("background_shell", "stream", names));
    }
    report({ ...end, evidence });
    ended.resolve();
  }

  return {
    ended: ended.promise,
    take(message) {
      if (isClosed) return;
      for (const change of view.take(message)) onChange(change);
      if (isRunning) desks.take(message);
    },
    isRunning: () => isRunning,
    broken(why) {
      report({ kind: "stream_lost", reason: why, evidence: pipe.evidence("message_broken", "stream", why) });
    },
    async interrupt() {
      // Before its start an interrupt would find the session idle, and the message would run behind it.
      await Promise.race([started.promise, ended.promise]);
      await options.sendInterrupt();
    },
    answerPermission: desks.answerPermission,
    answerQuestion: desks.answerQuestion,
    close() {
      cancelGrace();
      providerWaits.forgetAll();
      // Its closing reports must still get out.
      desks.close("the turn ended");
      isRunning = false;
      isClosed = true;
      ended.resolve();
    },
  };
}
