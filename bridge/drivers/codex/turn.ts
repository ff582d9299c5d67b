/**
 * The active turn of a codex thread: feeds the pure view, keeps its timers and its requests, asks for its end, and hands
 * on observations. Ends with `close`.
 */
import { relative } from "node:path";
import { watchSilence } from "../../../protocol/clock.ts";
import { clip, HoldfastError } from "../../../protocol/errors.ts";
import type { NativeStatus } from "../../../protocol/settlement.ts";
import type { NativeError, Observation } from "../driver.ts";
import { createProviderWaits } from "../provider-waits.ts";
import type { Pipe, PipeTurn } from "../stdio/resident.ts";
import type { Answer, CodexChannel } from "./channel.ts";
import type { NativeTurn } from "./family.ts";
import { readAsk } from "./native-asks.ts";
import type { NativeEvent, NativeRequest, TokenUsage } from "./native-message.ts";
import { openTurnRequests } from "./turn-requests.ts";
import { createTurnView, turnOf, type ViewChange } from "./turn-view.ts";

export interface CodexTurnOptions {
  pipe: Pipe;
  channel: CodexChannel;
  root: string;
  directory: string;
  /** Our id for the user's message. */
  message: string;
  usageBefore: TokenUsage | null;
  report(observation: Observation): void;
  /** Codex has ended the turn; called before that is reported. */
  onEnded(left: Leftover): void;
}

/** What an ended turn may have left at work. */
export interface Leftover {
  status: NativeStatus;
  /** Turns of subagents. */
  children: NativeTurn[];
  /** Threads with commands that have not ended. */
  atCommands: string[];
}

export interface CodexTurn extends Omit<PipeTurn, "take"> {
  /** True when the event was this turn's. */
  take(event: NativeEvent): boolean;
  /** True when the request was this turn's, and will get its reply. */
  asked(request: NativeRequest): boolean;
  /** Codex has named the turn. */
  started(turn: string): void;
}

/** How codex refuses an interrupt that names another turn than the one that runs. */
const OTHER_TURN = /\bbut found ([0-9a-f-]{36})\b/;
/** So long an abort waits for the turn to be seen to run: right behind its answer codex knows of no turn, and runs it after. */
const BEGUN_MS = 2000;

export function openCodexTurn(options: CodexTurnOptions): CodexTurn {
  const { pipe, channel, root, directory } = options;
  const { clock, limits } = pipe.request;
  const view = createTurnView(options);
  const ended = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
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
    ancestry: view.family.ancestry,
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

  function expectEnd(error: NativeError | null): void {
    cancelOverdue ??= watchSilence(clock, limits.endOverdueMs, () =>
      report({
        kind: "end_overdue",
        error,
        evidence: pipe.evidence("end_overdue", "stream", error?.name ?? "idle, not completed"),
      }),
    ).stop;
  }

  function forgetTimers(): void {
    cancelOverdue?.();
    cancelOverdue = null;
    providerWaits.forgetAll();
  }

  function onChange(change: ViewChange): void {
    switch (change.kind) {
      case "own_event":
        report({ kind: "own_event", evidence: pipe.evidence(change.what, "stream", options.message) });
        return begun.resolve();
      case "text":
      case "withdrawn":
        return report(change);
      case "tool":
        return report({
          ...change,
          call: change.call.slice(0, 256),
          tool: change.tool.slice(0, 128),
          title: clip(change.title, 200),
        });
      case "waiting": {
        const { session, ...rest } = change;
        providerWaits.expect(session, change.reason);
        return report({ ...rest, nextAt: null });
      }
      case "progress":
        return providerWaits.forget(change.session);
      case "end_expected":
        return expectEnd(change.error);
      case "ended": {
        const { status } = change;
        isOver = true;
        forgetTimers();
        requests.close("the turn ended");
        options.onEnded({
          status,
          children: view.family.atWork(),
          atCommands: view.threadsAtCommands(),
        });
        report({
          ...change,
          kind: "native_end",
          evidence: [pipe.evidence("turn_completed", "stream", `${view.turnId() ?? ""} ${status}`)],
        });
        return ended.resolve();
      }
      default: {
        const never: never = change;
        throw new TypeError(`change ${String(never)} is not handled`);
      }
    }
  }

  const changes = (all: ViewChange[]) => {
    for (const change of all) onChange(change);
  };

  const isOurs = (thread: string, turn: string | null) => !isOver && !isClosed && view.isOurs(thread, turn);

  async function hasBegun(): Promise<void> {
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = clock.after(Math.min(BEGUN_MS, limits.abortMs / 2), resolve);
    });
    await Promise.race([begun.promise, ended.promise, late]);
    cancel();
  }

  /** One interrupt; when codex names another turn as the active one, one more with that (public case P18). */
  async function interruptRoot(turn: string): Promise<void> {
    const answer = await interruptTurn(channel, { thread: root, turn }, limits.abortMs);
    if (answer.kind === "result" || isOver) return;
    const other = OTHER_TURN.exec(answer.message)?.[1];
    if (other === undefined) throw new HoldfastError("CLI_REFUSED", clip(answer.message));
    changes(view.adopt(other));
    const again = await interruptTurn(channel, { thread: root, turn: other }, limits.abortMs);
    if (again.kind === "refused" && !isOver) throw new HoldfastError("CLI_REFUSED", clip(again.message));
  }

  return {
    ended: ended.promise,
    take(event) {
      if (isOver || isClosed) return false;
      if (event.method === "serverRequest/resolved") {
        requests.resolved(event.params.requestId);
        return true;
      }
      if (event.method === "turn/started" && event.params.threadId !== root) {
        changes(view.take(event));
        return view.isOurs(event.params.threadId, event.params.turn.id);
      }
      if (!isOurs(event.params.threadId, turnOf(event))) return false;
      changes(view.take(event));
      return true;
    },
    asked(request) {
      const ask = readAsk(request);
      if (ask === null || !isOurs(ask.session, ask.turn)) return false;
      if (ask.kind === "patch") {
        const paths = view.pathsOf(ask.call).map((path) => shortPath(directory, path));
        requests.asked({ ...ask, patterns: [...ask.patterns, ...paths] });
      } else requests.asked(ask);
      return true;
    },
    started(turn) {
      if (!isOver && !isClosed) changes(view.adopt(turn));
    },
    async interrupt() {
      await hasBegun();
      const turn = view.turnId();
      if (isOver) return;
      if (turn === null) throw new HoldfastError("CLI_REFUSED", "codex has not named the turn");
      await interruptRoot(turn);
      await Promise.all(view.family.atWork().map((child) => interruptTurn(channel, child, limits.abortMs)));
    },
    answerPermission: requests.answerPermission,
    answerQuestion: requests.answerQuestion,
    close() {
      forgetTimers();
      // Its closing reports must still get out.
      requests.close("the turn ended");
      isClosed = true;
    },
  };
}

/** Answered at once; the turn's end follows as an event. */
export function interruptTurn(
  channel: CodexChannel,
  { thread, turn }: NativeTurn,
  limitMs: number,
): Promise<Answer> {
  return channel.call("turn/interrupt", { threadId: thread, turnId: turn }, { limitMs });
}

/** Below the working directory as a rule would name it; outside, whole. */
function shortPath(directory: string, path: string): string {
  const short = relative(directory, path);
  return short === "" || short.startsWith("..") ? path : short;
}
