/**
 * The active turn of a pi session: feeds the pure view, keeps its timers and its requests, asks for the turn's records
 * when pi has settled, and hands on observations. Ends with `close`.
 */
import { watchSilence } from "../../../protocol/clock.ts";
import { asHoldfastError, clip } from "../../../protocol/errors.ts";
import type { TailReference } from "../../../protocol/locator.ts";
import type { NativeError, Observation } from "../driver.ts";
import { createProviderWaits } from "../provider-waits.ts";
import { endLeftovers, ticksNow } from "../stdio/leftovers.ts";
import type { Pipe, PipeTurn } from "../stdio/resident.ts";
import type { PiChannel } from "./channel.ts";
import { readDialog, readStatus } from "./dialog.ts";
import type { NativeMessage, UiRequest } from "./native-message.ts";
import { openTurnRequests } from "./turn-requests.ts";
import { createTurnView, type ViewChange, type ViewEnd } from "./turn-view.ts";

export interface PiTurnOptions {
  pipe: Pipe;
  channel: PiChannel;
  nativeId: string;
  text: string;
  /** Where the turn ended in pi's records. `problem` says what is missing there, or is null. */
  recorded(end: ViewEnd): Promise<{ tail: TailReference | null; problem: NativeError | null }>;
  report(observation: Observation): void;
}

export interface PiTurn extends Omit<PipeTurn, "take"> {
  take(message: NativeMessage): void;
  /** Resolves when pi is seen at work on this very turn. */
  readonly begun: Promise<void>;
  hasBegun(): boolean;
  /** Pi has settled: what comes now is nobody's. */
  isOver(): boolean;
  /** Pi took the prompt up, and then refused it. */
  refused(why: string): void;
}

/** For ending what an interrupted turn's tools have left. */
const LEFTOVERS_MS = 2000;

export function openPiTurn(options: PiTurnOptions): PiTurn {
  const { pipe, channel, nativeId } = options;
  const { clock, limits, log } = pipe.request;
  const view = createTurnView(options.text);
  const ended = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const startTicks = ticksNow();
  startTicks.catch(() => {
    // Whoever needs it has it from there.
  });
  let hasBegun = false;
  let isInterrupted = false;
  let isOver = false;
  let isClosed = false;
  let cancelOverdue: (() => void) | null = null;

  const report = (observation: Observation) => {
    if (!isClosed) options.report(observation);
  };

  const providerWaits = createProviderWaits(clock, limits.providerWaitMs, (reason) =>
    report({ kind: "provider_late", reason, evidence: pipe.evidence("provider_late", "bridge", reason) }),
  );

  const requests = openTurnRequests({
    request: pipe.request,
    session: nativeId,
    send: channel.reply,
    report,
    onUnresolved: (code, detail) =>
      report({
        kind: "permission_unresolved",
        code,
        detail: clip(detail),
        evidence: pipe.evidence("request_unresolved", "stream", clip(detail)),
      }),
  });

  function overdue(error: NativeError | null, detail: string): void {
    report({ kind: "end_overdue", error, evidence: pipe.evidence("end_overdue", "stream", clip(detail)) });
  }

  function forgetEnd(): void {
    cancelOverdue?.();
    cancelOverdue = null;
  }

  async function settle(end: ViewEnd): Promise<void> {
    isOver = true;
    providerWaits.forgetAll();
    requests.settled();
    requests.close("the turn ended");
    const seen = pipe.evidence("agent_settled", "stream", end.status);
    try {
      if (isInterrupted) await endChildren();
      ended.resolve();
      const { tail, problem } = await options.recorded(end);
      // What pi could not write is not part of the conversation, whatever it has said.
      const status = problem !== null && end.status === "completed" ? "failed" : end.status;
      const { usage } = end;
      report({ kind: "native_end", status, error: end.error ?? problem, tail, usage, evidence: [seen] });
    } catch (error) {
      const why = asHoldfastError(error).message;
      log.warn("the records of a turn could not be asked for", { error: why });
      overdue(end.error, `settled, and its records are not known: ${why}`);
    }
  }

  /** What ran in a session of its own outlives pi's abort (measured). */
  async function endChildren(): Promise<void> {
    const left = await endLeftovers({
      mark: pipe.request.slot.mark,
      clock,
      limitMs: LEFTOVERS_MS,
      sinceTicks: await startTicks,
      except: pipe.native.pid,
    });
    if (left.length > 0) log.warn("processes of an aborted turn are left", { count: left.length });
  }

  function onChange(change: ViewChange): void {
    switch (change.kind) {
      case "own_event":
        hasBegun = true;
        report({
          kind: "own_event",
          evidence: pipe.evidence("own_user_message", "stream", change.what),
        });
        return begun.resolve();
      case "text":
      case "withdrawn":
        return report(change);
      case "tool": {
        const { call, tool, status, title } = change;
        if (status !== "running") requests.callEnded(call);
        return report({
          kind: "tool",
          session: nativeId,
          call: call.slice(0, 256),
          tool: tool.slice(0, 128),
          status,
          title: clip(title, 200),
        });
      }
      case "waiting": {
        const { reason, attempt, delayMs } = change;
        providerWaits.expect(nativeId, reason);
        return report({ kind: "waiting", reason, attempt, nextAt: clock.nowAt() + delayMs });
      }
      case "progress":
        return providerWaits.forget(nativeId);
      case "end_expected":
        cancelOverdue ??= watchSilence(clock, limits.endOverdueMs, () =>
          overdue(null, "ended, not settled"),
        ).stop;
        return;
      case "end_not_expected":
        return forgetEnd();
      case "settled":
        return void settle(change.end);
      default: {
        const never: never = change;
        throw new TypeError(`change ${String(never)} is not handled`);
      }
    }
  }

  function takeRequest(request: UiRequest): void {
    const status = readStatus(request);
    if (status?.say === "decided") return requests.decided(status.call);
    const dialog = readDialog(request);
    if (dialog !== null) requests.asked(dialog);
  }

  return {
    ended: ended.promise,
    begun: begun.promise,
    hasBegun: () => hasBegun,
    isOver: () => isOver,
    take(message) {
      if (isClosed) return;
      if (message.type === "extension_ui_request") return takeRequest(message);
      for (const change of view.take(message)) onChange(change);
    },
    refused(why) {
      overdue({ name: "PromptRefused", message: clip(why) }, "refused behind its beginning");
    },
    async interrupt() {
      isInterrupted = true;
      // An open dialog holds the abort up for as long as it is open (measured).
      await requests.refuseAll();
      const answer = await channel.call({ type: "abort" }, limits.abortMs);
      if (!answer.success) log.warn("pi refused the abort", { error: clip(answer.error ?? "") });
    },
    answerPermission: requests.answerPermission,
    answerQuestion: requests.answerQuestion,
    close() {
      forgetEnd();
      providerWaits.forgetAll();
      // Its closing reports must still get out.
      requests.close("the turn ended");
      isClosed = true;
    },
  };
}
