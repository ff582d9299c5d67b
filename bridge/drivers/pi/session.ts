/**
 * A pi session on its pipe: one prompt at a time, the gate before each, the records behind each. Pi loses the second of
 * two prompts without a trace when it has not picked up the first (measured), so nothing is sent before a turn is over.
 */
import { asHoldfastError, clip, HoldfastError } from "../../../protocol/errors.ts";
import type { TailReference } from "../../../protocol/locator.ts";
import { limited } from "../../limited.ts";
import type { IdentityResult, Prompt, SubmitResult } from "../driver.ts";
import type { Pipe, PipeSession } from "../stdio/resident.ts";
import type { PiChannel } from "./channel.ts";
import { holdsAnswer, tailOf } from "./history.ts";
import { type NativeMessage, type Response, readNative, type State } from "./native-message.ts";
import { openPiTurn, type PiTurn } from "./turn.ts";
import type { ViewEnd } from "./turn-view.ts";

/** How often a session that works on something of its own is asked whether it still does. */
const POLL_MS = 50;

export interface PiSessionOptions {
  pipe: Pipe;
  channel: PiChannel;
  nativeId: string;
  directory: string;
  /** The newest record when the session was opened. */
  leaf: string | null;
  /** The last settled turn, of a resumed session. */
  tail: TailReference | null;
}

export function createPiSession(options: PiSessionOptions): PipeSession {
  const { pipe, channel, nativeId, directory } = options;
  const { clock, limits, listener } = pipe.request;
  let { leaf, tail } = options;
  let turn: PiTurn | null = null;
  let prompts = 0;
  /** Why pi's history is not what it says, or null. */
  let broken: string | null = null;

  const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));

  function takeIdle(message: NativeMessage): void {
    if (message.type === "extension_ui_request") return channel.takeIdle(message);
    if (message.type === "agent_start") listener.onUnrequested(nativeId, "started", message.type);
    if (message.type === "agent_settled") listener.onUnrequested(nativeId, "ended", message.type);
  }

  async function recorded(end: ViewEnd): ReturnType<Parameters<typeof openPiTurn>[0]["recorded"]> {
    const entries = await channel.entriesBehind(leaf);
    if (entries === null)
      throw new HoldfastError("CLI_REFUSED", "pi no longer knows the record before the turn");
    leaf = entries.leafId;
    tail = tailOf(entries) ?? tail;
    if (end.answeredAt === null || holdsAnswer(entries, end.answeredAt)) return { tail, problem: null };
    broken = "pi could not write its history";
    return {
      tail,
      problem: { name: "HistoryNotWritten", message: "the CLI has not stored its last answer" },
    };
  }

  function problemOf(state: State): string | null {
    if (state.sessionId !== nativeId) return `pi is in another session (${state.sessionId.slice(0, 64)})`;
    const isAtWork = state.isStreaming || state.isCompacting || state.pendingMessageCount > 0;
    return isAtWork ? "the session is busy with something that nobody asked for" : null;
  }

  /** Its own start of work is an answer too: before it, pi may compact, and answers only then. */
  async function send(text: string, opened: PiTurn): Promise<Response | null> {
    const answer = channel.call({ type: "prompt", message: text }, limits.turnMs);
    answer.then(
      ({ success, error }) => {
        if (!success && opened.hasBegun()) opened.refused(error ?? "refused");
      },
      () => undefined /* the race below has it, or it came too late for anybody */,
    );
    return limited({ clock, limitMs: limits.requestMs, code: "CLI_REFUSED", what: "the prompt" }, () =>
      Promise.race([answer, opened.begun.then(() => null)]),
    );
  }

  return {
    nativeId,
    directory,
    take(raw) {
      const message = readNative(raw);
      if (message === null) return;
      if (message.type === "response") return channel.takeAnswer(message);
      if (message.type === "extension_error") return channel.takeFault(message.event ?? "");
      if (turn !== null && !turn.isOver()) turn.take(message);
      else takeIdle(message);
    },
    async gate() {
      const deadlineMs = clock.monotonicMs() + limits.requestMs;
      for (;;) {
        const problem = problemOf(await channel.state());
        if (problem === null) return { what: "answer_returned", detail: "get_state: idle, in its session" };
        if (clock.monotonicMs() >= deadlineMs) throw new HoldfastError("GATE_FAILED", problem);
        await wait(POLL_MS);
      }
    },
    nextMessageId() {
      prompts += 1;
      return `${nativeId.slice(0, 128)}.${pipe.request.processGeneration}.${prompts}`;
    },
    openTurn(prompt, report) {
      const opened = openPiTurn({ pipe, channel, nativeId, text: prompt.text, recorded, report });
      turn = opened;
      return {
        ...opened,
        take: () => undefined /* the session reads each message once, and hands it on */,
        close() {
          opened.close();
          if (turn === opened) turn = null;
        },
      };
    },
    async submit({ text }: Prompt): Promise<SubmitResult> {
      if (turn === null) throw new HoldfastError("INTERNAL", "a prompt without its turn");
      try {
        const answer = await send(text, turn);
        if (answer === null) return { kind: "accepted" };
        if (!answer.success)
          return { kind: "rejected", detail: clip(answer.error ?? "pi refused the prompt") };
        const { disposition } = (answer.data ?? {}) as { disposition?: unknown };
        // Taken by an extension, or put behind other work: this turn has no run of its own.
        if (disposition === "handled")
          return { kind: "rejected", detail: "an extension of pi took the message" };
        if (disposition === "queued")
          return { kind: "unclear", detail: "pi put the message behind other work" };
        return { kind: "accepted" };
      } catch (error) {
        return { kind: "unclear", detail: asHoldfastError(error).message };
      }
    },
    async verify(): Promise<IdentityResult> {
      try {
        const { sessionId } = await channel.state();
        const evidence = pipe.evidence("get_state", "stream", sessionId.slice(0, 64));
        if (sessionId === nativeId) return { kind: "verified", nativeId, evidence };
        return { kind: "changed", observed: sessionId.slice(0, 256), evidence };
      } catch (error) {
        return { kind: "unavailable", detail: asHoldfastError(error).message };
      }
    },
    mustRetire: () => broken,
    fail: channel.fail,
  };
}
