/** The conversation of `holdfast chat`: message, turn, message; and what Ctrl-C does at each point. */
import { asHoldfastError, type ErrorCode } from "../../protocol/errors.ts";
import type { Host } from "../host.ts";
import type { TurnHandle } from "../turn-handle.ts";
import { type AnswerPorts, createAsker } from "./asks.ts";
import { orAborted, watchInterrupts } from "./interrupts.ts";
import type { Messages } from "./messages.ts";
import { type Output, oneLine } from "./output.ts";
import { show } from "./turn-display.ts";

/** Faults of the one message: the conversation goes on. */
const REFUSED_MESSAGE: ReadonlySet<ErrorCode> = new Set(["MESSAGE_IS_COMMAND", "MESSAGE_TOO_LARGE"]);

/**
 * Ends with the messages. Ctrl-C: aborts the turn; once more in the same turn: leaves, and the turn goes on; without a
 * turn: leaves. A message that is too large or a command is said and passed over; every other refusal ends the
 * conversation.
 */
export async function converse(options: {
  host: Host;
  output: Output;
  /** A member that exists already: its turn that still runs is shown first. */
  kept: string | null;
  member: () => string;
  open: (onInterrupt: () => void) => Messages;
}): Promise<{ failed: number }> {
  const { host, output, kept } = options;
  const leaving = new AbortController();
  let turn: TurnHandle | null = null;
  let isAborting = false;
  let failed = 0;

  function onInterrupt(): void {
    if (turn === null || isAborting) {
      leaving.abort();
      messages.close();
      return;
    }
    isAborting = true;
    output.progress("aborting the turn (Ctrl-C again leaves at once)");
    turn.abort().catch((error: unknown) => {
      const { code, message } = asHoldfastError(error);
      // It ended by itself meanwhile.
      if (code !== "ABORT_NO_TURN") output.progress(`holdfast: the abort failed: ${oneLine(message)}`);
    });
  }

  async function follow(handle: TurnHandle, awaited?: string): Promise<void> {
    turn = handle;
    isAborting = false;
    const asker = createAsker({ ports: answers(host), output, nextLine });
    // What was asked before we came (after a restart) still waits.
    for (const request of host.openRequests(handle.member)) asker.take(request);
    try {
      const shown = show(handle, output, awaited, asker.take);
      const settlement = await orAborted(shown, leaving.signal);
      if (settlement?.outcome !== "completed") failed += 1;
    } finally {
      asker.end();
      turn = null;
    }
  }

  const messages = options.open(onInterrupt);
  const reader = messages[Symbol.asyncIterator]();
  let reading: Promise<IteratorResult<string>> | null = null;

  /** The next line, be it a message or an answer; a line that nobody waited for in the end is the next one's. */
  async function nextLine(signal: AbortSignal): Promise<string | null> {
    reading ??= reader.next();
    const line = await orAborted(reading, signal);
    if (line === null) return null;
    reading = null;
    return line.done === true ? null : line.value;
  }

  const unwatch = watchInterrupts(onInterrupt);
  try {
    const running = kept === null ? null : runningTurn(host, kept);
    if (running !== null) {
      output.progress("a turn of before still runs; this is it");
      await follow(running, "the turn goes on");
    }
    messages.prompt();
    for (;;) {
      const message = await nextLine(leaving.signal);
      if (message === null) break;
      if (message.trim() !== "") {
        const handle = submit(message);
        if (handle !== null) await follow(handle);
      }
      messages.prompt();
    }
    return { failed };
  } finally {
    unwatch();
    messages.close();
  }

  function submit(message: string): TurnHandle | null {
    try {
      return host.submit(options.member(), message);
    } catch (error) {
      const fault = asHoldfastError(error);
      if (!REFUSED_MESSAGE.has(fault.code)) throw error;
      output.error(fault);
      failed += 1;
      return null;
    }
  }
}

function answers(host: Host): AnswerPorts {
  return {
    permission: (turn, session, request, reply) => host.answerPermission({ turn, session, request, reply }),
    question: (turn, session, request, given) =>
      host.answerQuestion({ turn, session, request, answers: given }),
  };
}

function runningTurn(host: Host, member: string): TurnHandle | null {
  const open = host.store.openTurnsOf(host.member(member).sandbox).find((row) => row.member === member);
  return open === undefined ? null : host.running(open.id);
}
