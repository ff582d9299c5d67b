/**
 * A CLI that speaks JSON lines on stdin and stdout: reads its messages in order, writes ours, and says when either way
 * is lost. It knows no protocol; the drivers of Claude Code, Codex and Pi are made on it.
 *
 * Each of exit and end of stdout may come without the other (a grandchild may hold the pipe; a CLI may close it and live
 * on). An exit is reported when what was still in the pipe has been read, or after a bound; what we had on the way to the
 * CLI fails behind it, so that the exit is the first cause (public case P29).
 */
import { watchSilence } from "../../../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../../../protocol/errors.ts";
import { type NativeProcess, type ProcessExit, startProcess } from "../../process.ts";
import type { LaunchRequest } from "../driver.ts";
import { createLineInput } from "./line-input.ts";
import { readLine } from "./line-reading.ts";
import { createLineSplitter } from "./line-splitter.ts";
import { createNoiseLog } from "./noise-log.ts";

/** How long stdout may stay open behind the exit before the exit is reported all the same. */
const DRAIN_MS = 250;
/** How long the process may live on behind the end of its stdout before its stream is lost. */
const EXIT_SEEN_MS = 250;

export interface LineProcessOptions {
  request: LaunchRequest;
  /** Behind the pinned command. */
  args: readonly string[];
  environment: Readonly<Record<string, string>>;
  /** A key that each message of the protocol carries; several when none is in all. An object without any is noise. */
  ownKey: string | readonly string[];
  /** How long the CLI may take to end by itself behind the end of its stdin. Default: the limit of each step of a stop. */
  gracefulMs?: number | undefined;
  /**
   * `sequence` counts the messages of this process from 1; `chars` is the length of the line. What it throws loses the
   * stream.
   */
  onMessage(message: Record<string, unknown>, sequence: number, chars: number): void;
  /** The pipe is of no use any more: a line too large, a damaged one, the end of stdout, or of stdin. Once; not by an exit. */
  onLost(reason: string): void;
  /** After everything that it had printed. Once. */
  onExit(exit: ProcessExit): void;
}

export interface LineProcess {
  readonly native: NativeProcess;
  /** Messages read so far. */
  sequence(): number;
  /** Still running, and its stdout can be read. */
  isUsable(): boolean;
  /**
   * Resolves when the line is in the pipe. Rejects with CLI_EXITED, with OVERLOADED or INTERNAL when nothing of it was
   * sent, with CLI_REFUSED when it is not taken within `limitMs` (default: `limits.requestMs`): then the pipe is lost, and
   * nobody knows how much of the line has been read.
   */
  send(message: unknown, limitMs?: number): Promise<void>;
  /** Ends it: stdin's end first when `isGraceful`, then the signals. Returns what of the slot could not be ended. */
  stop(isGraceful: boolean): ReturnType<NativeProcess["stop"]>;
}

/** Throws CLI_NOT_READY, PROCESS_LEFT. */
export async function startLineProcess(options: LineProcessOptions): Promise<LineProcess> {
  const { request } = options;
  const { clock, log, limits } = request;
  const { member } = request.slot;
  const native = await startProcess({
    command: [...request.command, ...options.args],
    slot: request.slot,
    clock,
    generation: request.processGeneration,
    environment: options.environment,
  });
  const splitter = createLineSplitter();
  const noiseLog = createNoiseLog(log, member);
  const outEnded = Promise.withResolvers<void>();
  let stopWaitingForExit: (() => void) | null = null;
  let sequence = 0;
  let isLost = false;
  let isStopping = false;

  function lose(reason: string): void {
    if (isLost) return;
    isLost = true;
    if (!native.hasExited()) options.onLost(reason);
  }

  const input = createLineInput({
    stdin: native.stdin,
    clock,
    hasExited: native.hasExited,
    onFailed: lose,
  });

  /** False when a part of it can't be read. */
  function take(line: string): boolean {
    if (isLost || line === "") return true;
    const reading = readLine(line, options.ownKey);
    if (reading.noise !== "") noiseLog.note(reading.noise, reading.isDamaged);
    for (const message of reading.messages) {
      if (isLost) return true;
      sequence += 1;
      options.onMessage(message, sequence, line.length);
    }
    return !reading.isDamaged;
  }

  /** A line that is too large loses the stream, and so does a fault of whoever takes the messages. */
  function guarded(read: () => void): void {
    if (isLost) return;
    try {
      read();
    } catch (error) {
      lose(asHoldfastError(error).message);
    }
  }

  native.stdout.on("data", (chunk: Buffer) =>
    guarded(() =>
      splitter.feed(chunk, (line) => {
        if (!take(line)) lose("a line of the CLI is damaged");
      }),
    ),
  );

  /** The last line may have no end. One that is cut is what an exit leaves: the cause is told by what comes next. */
  const takeRest = () => guarded(() => void take(splitter.rest()));

  native.stdout.once("close", () => {
    takeRest();
    outEnded.resolve();
    if (native.hasExited()) return;
    stopWaitingForExit = watchSilence(clock, EXIT_SEEN_MS, () => {
      if (!isStopping) lose("the CLI closed its stdout");
    }).stop;
  });
  // Its `close` follows.
  native.stdout.on("error", () => undefined);

  /** Until stdout has ended, or has been open for too long. */
  async function drained(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const { stop } = watchSilence(clock, DRAIN_MS, () => late.resolve());
    await Promise.race([outEnded.promise, late.promise]);
    stop();
  }

  void native.exited.then(async (exit) => {
    await drained();
    takeRest();
    isLost = true;
    stopWaitingForExit?.();
    native.stdout.destroy();
    noiseLog.end();
    const how = `code ${exit.code}, signal ${exit.signal}`;
    if (exit.code !== 0) log.info("the CLI ended", { member, code: exit.code, signal: exit.signal });
    options.onExit(exit);
    input.fail(new HoldfastError("CLI_EXITED", `the CLI ended (${how})`));
  });

  return {
    native,
    sequence: () => sequence,
    isUsable: () => !isLost && !native.hasExited(),
    send: (message, limitMs = limits.requestMs) => input.send(message, limitMs),
    stop(isGraceful) {
      isStopping = true;
      const graceful = async () => {
        if (!isGraceful) return;
        input.end();
        await native.exited;
      };
      return native.stop(limits.stopMs, graceful, options.gracefulMs);
    },
  };
}
