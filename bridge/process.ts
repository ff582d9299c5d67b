/**
 * One CLI process: started in a process group of its own, watched, and ended politely, then by force, then checked.
 * The only importer of execa in the bridge.
 *
 *   stop:  graceful (the driver's own way) ─▶ SIGTERM to the group ─▶ SIGKILL ─▶ census of the slot until nobody is left
 *
 * OpenCode leaves its shell children on SIGTERM and on SIGKILL, each in a session of its own: no signal to the group
 * reaches them, so the census is what decides.
 */

import { createHash } from "node:crypto";
import { type Readable, Transform, type Writable } from "node:stream";
import { execa } from "execa";
import type { Clock } from "../protocol/clock.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { listSlot, type ProcessEntry, reapSlot, signalIfThere } from "./census.ts";
import { realClock } from "./clock.ts";
import { SLOT_VARIABLE, type Slot } from "./slots.ts";
import { surroundings } from "./surroundings.ts";

/** Characters of stderr kept for error messages. */
const STDERR_TAIL_CHARS = 4000;

/** One argument or variable beyond this never reaches the child (Linux: 128 KiB); refused here with its name. */
const SINGLE_STRING_BYTES = 128 * 1024 - 1;

export interface ProcessExit {
  code: number | null;
  signal: string | null;
  /** The end of stderr; may hold anything the CLI printed, so it goes into the log only. */
  stderrTail: string;
}

export interface NativeProcess {
  readonly pid: number;
  /** Counts a member's processes in this bridge life. */
  readonly generation: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Settles once, when the process has ended; never rejects. */
  readonly exited: Promise<ProcessExit>;
  hasExited(): boolean;
  /**
   * Ends the process and everything of its slot. Returns what could not be ended.
   * @param graceful the driver's own way; it may fail, the signals follow anyway
   * @param gracefulMs limit of the graceful way; default `limitMs`, the limit of each other step
   */
  stop(limitMs: number, graceful: () => Promise<void>, gracefulMs?: number): Promise<ProcessEntry[]>;
}

export interface StartOptions {
  command: readonly string[];
  slot: Slot;
  environment: Readonly<Record<string, string>>;
  generation: number;
  clock: Clock;
}

/** Starts a CLI. Reaps the slot first: nothing of an earlier process may be left beside the new one. */
export async function startProcess(options: StartOptions): Promise<NativeProcess> {
  const { slot, clock, generation } = options;
  checkStrings(options);
  const before = await reapSlot(slot.mark, clock, 5000);
  if (before.length > 0) throw processesLeft(before);

  const [file, ...args] = options.command;
  if (file === undefined) throw new TypeError("a command needs at least its file");
  const previousMask = process.umask(0o002);
  let child: ReturnType<typeof spawnChild>;
  try {
    child = spawnChild(file, args, options);
  } finally {
    process.umask(previousMask);
  }

  let exit: ProcessExit | null = null;
  let stderrTail = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text: string) => {
    stderrTail = (stderrTail + text).slice(-STDERR_TAIL_CHARS);
  });
  // A child that exits early must not turn a pending write into an uncaught error; the exit itself is reported.
  child.stdin.on("error", () => undefined);
  const exited = new Promise<ProcessExit>((resolve) => {
    const end = (code: number | null, signal: string | null) => {
      exit ??= { code, signal, stderrTail };
      resolve(exit);
    };
    // `exit` and not `close`: a grandchild may hold the pipes open for ever.
    child.nodeChildProcess.once("exit", end);
    child.nodeChildProcess.once("error", () => end(null, null));
  });

  if (child.pid === undefined) {
    // Ended by the same fault. Its own `error` event does not come when the system refused the call outright.
    await child;
    throw new HoldfastError("CLI_NOT_READY", `the command ${file} can't be started`);
  }
  const { pid } = child;

  return {
    pid,
    generation,
    stdin: child.stdin,
    stdout: child.stdout,
    exited,
    hasExited: () => exit !== null,
    async stop(limitMs, graceful, gracefulMs = limitMs) {
      const known = await listSlot(slot.mark);
      if (exit === null) await endsWithin(clock, gracefulMs, Promise.race([graceful(), exited]));
      if (exit === null) signalIfThere(-pid, "SIGTERM");
      if (!(await endsWithin(clock, limitMs, exited))) {
        signalIfThere(-pid, "SIGKILL");
        await endsWithin(clock, limitMs, exited);
      }
      return reapSlot(slot.mark, clock, limitMs, known);
    },
  };
}

/** True when the work ended in time, well or not: what follows a graceful end does not depend on its success. */
async function endsWithin(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<boolean> {
  let cancel: () => void = () => undefined;
  const late = new Promise<false>((resolve) => {
    cancel = clock.after(limitMs, () => resolve(false));
  });
  const ended = work.then(
    () => true,
    () => true,
  );
  const inTime = await Promise.race([ended, late]);
  cancel();
  return inTime;
}

function spawnChild(file: string, args: readonly string[], options: StartOptions) {
  const { slot } = options;
  return execa(file, args, {
    cwd: slot.workspace,
    env: { ...environmentOf(options), [SLOT_VARIABLE]: slot.markValue },
    extendEnv: false,
    // A group and session of its own, so that signals reach exactly it and its plain children.
    detached: true,
    cleanup: false,
    buffer: false,
    reject: false,
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    ...(slot.user === null ? {} : { uid: slot.user.uid, gid: slot.user.gid }),
  });
}

/**
 * Runs a short-lived program as the slot's user and waits for its end, bounded in time and output. Never rejects: what
 * can't be started, or prints more than `maxBytes`, has no code; beyond the limit it and its children are killed, nobody
 * waits for them any more, and `isLate` says so.
 */
export async function runInSlot(
  slot: Slot,
  command: readonly [string, ...string[]],
  options: { input: string; maxBytes: number; limitMs: number; clock?: Clock },
): Promise<{ code: number | null; isLate: boolean; stdout: string; stderr: string }> {
  const { clock = realClock } = options;
  const [file, ...args] = command;
  const child = execa(file, args, {
    input: options.input,
    cwd: "/",
    env: {
      ...surroundings(slot, process.env),
      PATH: process.env.PATH ?? "/usr/bin:/bin",
      LANG: "C.UTF-8",
      [SLOT_VARIABLE]: slot.markValue,
    },
    extendEnv: false,
    // A group of its own: a child of it that outlived the limit would hold the pipes, and its end would not be seen.
    detached: true,
    cleanup: false,
    reject: false,
    stripFinalNewline: false,
    maxBuffer: options.maxBytes,
    ...(slot.user === null ? {} : { uid: slot.user.uid, gid: slot.user.gid }),
  });
  const ended = child.then(({ exitCode, stdout, stderr }) => ({
    code: exitCode ?? null,
    isLate: false,
    stdout,
    stderr,
  }));
  const late = Promise.withResolvers<null>();
  const cancel = clock.after(options.limitMs, () => late.resolve(null));
  const result = await Promise.race([ended, late.promise]);
  cancel();
  if (result !== null) return result;
  if (child.pid !== undefined) signalIfThere(-child.pid, "SIGKILL");
  return { code: null, isLate: true, stdout: "", stderr: "" };
}

export interface SlotCommand {
  slot: Slot;
  command: readonly [string, ...string[]];
}

/** How one of two programs on a pipe ended: no code when it was killed, or could not be started. */
export interface PipeEnd {
  code: number | null;
  /** The end of what it said on stderr. */
  said: string;
}

/**
 * Runs a program as one slot's user and hands what it prints to a program of another slot's user, or to nobody. Never
 * rejects. Beyond the time or the bytes both are killed, and have no code.
 */
export async function pipeFromSlot(
  source: SlotCommand,
  sink: SlotCommand | null,
  options: { limitMs: number; maxBytes: number; clock?: Clock },
): Promise<{ source: PipeEnd; sink: PipeEnd | null; sha256: string }> {
  const { clock = realClock } = options;
  const reader = spawnPiped(source);
  const writer = sink === null ? null : spawnPiped(sink);
  const children = writer === null ? [reader] : [reader, writer];
  const kill = () => {
    for (const { pid } of children) if (pid !== undefined) signalIfThere(-pid, "SIGKILL");
  };
  const hash = createHash("sha256");
  let bytes = 0;
  const through = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length;
      if (bytes > options.maxBytes) return kill();
      hash.update(chunk);
      done(null, writer === null ? undefined : chunk);
    },
  });
  // A side that ends early ends the other by its closed pipe; both are awaited below.
  writer?.stdin.once("close", () => reader.stdout.destroy());
  for (const stream of [reader.stdin, writer?.stdin, through]) stream?.on("error", () => undefined);
  reader.stdin.end();
  reader.stdout.pipe(through);
  if (writer !== null) through.pipe(writer.stdin);
  else through.resume();
  writer?.stdout.resume();
  const cancel = clock.after(options.limitMs, kill);
  const [readEnd = NO_END, writeEnd = null] = await Promise.all(children.map(endOf));
  cancel();
  return { source: readEnd, sink: writeEnd, sha256: hash.digest("hex") };
}

const NO_END: PipeEnd = { code: null, said: "" };

function spawnPiped({ slot, command: [file, ...args] }: SlotCommand) {
  return execa(file, args, {
    cwd: "/",
    env: { PATH: process.env.PATH ?? "/usr/bin:/bin", LANG: "C.UTF-8", [SLOT_VARIABLE]: slot.markValue },
    extendEnv: false,
    detached: true,
    cleanup: false,
    buffer: { stdout: false },
    maxBuffer: STDERR_TAIL_CHARS * 16,
    reject: false,
    stdin: "pipe",
    encoding: "buffer",
    ...(slot.user === null ? {} : { uid: slot.user.uid, gid: slot.user.gid }),
  });
}

async function endOf(child: ReturnType<typeof spawnPiped>): Promise<PipeEnd> {
  const { exitCode, stderr } = await child;
  const said = Buffer.from(stderr).toString("utf8").slice(-STDERR_TAIL_CHARS);
  return { code: exitCode ?? null, said };
}

function environmentOf({ slot, environment }: StartOptions): Record<string, string> {
  return { ...surroundings(slot, process.env), ...environment };
}

function checkStrings(options: StartOptions): void {
  const strings = [
    ...options.command.map((text, index) => [`argument ${index}`, text] as const),
    ...Object.entries(environmentOf(options)).map(([name, value]) => [name, `${name}=${value}`] as const),
  ];
  for (const [name, text] of strings) {
    if (Buffer.byteLength(text) > SINGLE_STRING_BYTES) {
      throw new HoldfastError(
        "CLI_NOT_READY",
        `${name} exceeds ${SINGLE_STRING_BYTES} bytes and can't be passed to a process`,
      );
    }
  }
}

/** The error for processes that could not be ended: names them. */
export function processesLeft(left: readonly ProcessEntry[]): HoldfastError {
  const names = left.slice(0, 5).map(({ pid, command }) => `${pid} (${command})`);
  return new HoldfastError(
    "PROCESS_LEFT",
    `${left.length} processes of the slot could not be ended: ${names.join(", ")}`,
  );
}
