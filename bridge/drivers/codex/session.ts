/**
 * A codex thread on its pipe: the gate before each turn, the turn, and what is left to do behind it. A message to a
 * thread that is at work would be steered into that work without a word (measured), so the gate waits until it is idle.
 */
import { randomUUID } from "node:crypto";
import { asHoldfastError, clip, HoldfastError } from "../../../protocol/errors.ts";
import type { IdentityResult, Prompt, SubmitResult } from "../driver.ts";
import { endLeftovers, ticksNow } from "../stdio/leftovers.ts";
import type { Pipe, PipeSession } from "../stdio/resident.ts";
import type { CodexChannel } from "./channel.ts";
import { refusalOf } from "./native-asks.ts";
import {
  type NativeEvent,
  type NativeRequest,
  ReadThread,
  readNative,
  StartedTurn,
  type TokenUsage,
} from "./native-message.ts";
import { watchOtherWork } from "./other-work.ts";
import { type CodexTurn, interruptTurn, type Leftover, openCodexTurn } from "./turn.ts";

/** How often a thread that works on something of its own is asked whether it still does. */
const POLL_MS = 50;

export interface CodexSessionOptions {
  pipe: Pipe;
  channel: CodexChannel;
  /** Of the thread. */
  nativeId: string;
  directory: string;
  /** The thread's figures as codex gave them when it was opened; null for none yet. */
  usage: TokenUsage | null;
}

export function createCodexSession(options: CodexSessionOptions): PipeSession {
  const { pipe, channel, nativeId: root, directory } = options;
  const { clock, limits, listener, log, slot, launch } = pipe.request;
  const otherWork = watchOtherWork((thread, state, detail) => listener.onUnrequested(thread, state, detail));
  let { usage } = options;
  let turn: CodexTurn | null = null;
  let beganAtTicks = 0;
  /** What the last turn left is being ended. */
  let clearing: Promise<void> = Promise.resolve();

  const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));

  /** Nobody's: noted when it is work. */
  function takeIdle(event: NativeEvent): void {
    if (event.method === "turn/started")
      otherWork.began(event.params.threadId, event.params.turn.id, event.method);
    if (event.method === "turn/completed") otherWork.ended(event.params.threadId, event.params.turn.id);
  }

  /** Whoever asks and has no turn of ours gets a refusal: codex would wait for ever. */
  function refuse(request: NativeRequest): void {
    const refusal = refusalOf(request);
    log.info("a request of codex was refused", { member: slot.member, method: request.method.slice(0, 100) });
    const sent =
      refusal === null
        ? channel.refuse(request.id, "not supported by this client")
        : channel.reply(request.id, refusal);
    sent.catch((error: unknown) =>
      log.warn("a refusal was not taken", { member: slot.member, error: asHoldfastError(error).message }),
    );
  }

  /** Ends what must not work on behind the turn; what may is told as nobody's work from here on. */
  async function clear({ status, children, atCommands }: Leftover): Promise<void> {
    const isAborted = status === "aborted";
    for (const { thread, turn: left } of children) {
      if (launch.background && !isAborted) otherWork.began(thread, left, "works on behind its turn");
      else await interruptTurn(channel, { thread, turn: left }, limits.abortMs);
    }
    if (isAborted) {
      const left = await endLeftovers({
        mark: slot.mark,
        clock,
        limitMs: limits.stopMs,
        sinceTicks: beganAtTicks,
        except: pipe.native.pid,
      });
      if (left.length > 0)
        throw new HoldfastError("PROCESS_LEFT", `${left.length} processes of tools are left`);
    } else if (!launch.background) {
      // A subagent's commands outlive its interrupt, and its end, as the main thread's do (measured).
      const cleaned = await Promise.allSettled(
        atCommands.map((threadId) => channel.ask("thread/backgroundTerminals/clean", { threadId })),
      );
      for (const each of cleaned) if (each.status === "rejected") throw each.reason;
    }
  }

  function onEnded(left: Leftover): void {
    clearing = clear(left).catch((error: unknown) => {
      log.warn("what a turn left could not be ended", {
        member: slot.member,
        error: asHoldfastError(error).message,
      });
    });
  }

  async function readThread() {
    const read = ReadThread.safeParse(await channel.ask("thread/read", { threadId: root }));
    if (!read.success) throw new HoldfastError("CLI_REFUSED", "codex does not say what its thread is");
    return read.data.thread;
  }

  return {
    nativeId: root,
    directory,
    take(raw) {
      const message = readNative(raw);
      if (message === null) return;
      if (message.kind === "result" || message.kind === "refused") return channel.takeAnswer(message);
      if (message.kind === "request") {
        if (turn?.asked(message.request) !== true) refuse(message.request);
        return;
      }
      const { event } = message;
      if (turn?.take(event) !== true) takeIdle(event);
      if (event.method === "thread/tokenUsage/updated" && event.params.threadId === root)
        usage = event.params.tokenUsage;
    },
    async gate() {
      await clearing;
      const deadlineMs = clock.monotonicMs() + limits.requestMs;
      for (;;) {
        const { id, status } = await readThread();
        if (id !== root) throw new HoldfastError("GATE_FAILED", "codex answers for another thread");
        if (status.type === "notLoaded") throw new HoldfastError("GATE_FAILED", "the thread is not loaded");
        if (status.type !== "active" && otherWork.turnOf(root) === null) break;
        if (clock.monotonicMs() >= deadlineMs)
          throw new HoldfastError("GATE_FAILED", "the thread is busy with something that nobody asked for");
        await wait(POLL_MS);
      }
      beganAtTicks = await ticksNow();
      return { what: "answer_returned", detail: "thread/read: idle" };
    },
    nextMessageId: () => randomUUID(),
    openTurn(prompt, report) {
      const opened = openCodexTurn({
        pipe,
        channel,
        root,
        directory,
        message: prompt.nativeMessage,
        usageBefore: usage,
        report,
        onEnded,
      });
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
    async submit({ text, nativeMessage }: Prompt): Promise<SubmitResult> {
      const opened = turn;
      if (opened === null) throw new HoldfastError("INTERNAL", "a prompt without its turn");
      const busyWith = otherWork.turnOf(root);
      let named: string | null = null;
      try {
        const answer = await channel.call(
          "turn/start",
          {
            threadId: root,
            clientUserMessageId: nativeMessage,
            input: [{ type: "text", text, text_elements: [] }],
          },
          {
            onAnswer(given) {
              const started = given.kind === "result" ? StartedTurn.safeParse(given.result) : null;
              named = started?.success ? started.data.turn.id : null;
              if (named !== null) opened.started(named);
            },
          },
        );
        if (answer.kind === "refused")
          return { kind: "rejected", detail: clip(`turn/start: ${answer.message}`) };
        if (named === null) return { kind: "unclear", detail: "codex has not named the turn" };
        if (named === busyWith)
          return { kind: "unclear", detail: "codex put the message into a turn that ran already" };
        return { kind: "accepted" };
      } catch (error) {
        return { kind: "unclear", detail: asHoldfastError(error).message };
      }
    },
    async verify(): Promise<IdentityResult> {
      try {
        await clearing;
        const { id, cwd } = await readThread();
        const evidence = pipe.evidence("thread_read", "stream", clip(cwd));
        if (id !== root || cwd !== directory)
          return { kind: "changed", observed: id.slice(0, 256), evidence };
        return { kind: "verified", nativeId: id, evidence };
      } catch (error) {
        return { kind: "unavailable", detail: asHoldfastError(error).message };
      }
    },
    mustRetire: () => null,
    fail: channel.fail,
  };
}
