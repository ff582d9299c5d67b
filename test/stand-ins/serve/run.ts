// One busy period of a session: its open assistant message, what it waits for, and how it ends when it is aborted.
import type { World } from "./world.ts";

/** Thrown into a waiting turn by an abort; the abort itself says what the stream has to say. */
export class Stopped extends Error {}

type Part = Record<string, unknown> & { id: string; type: string };

export interface Run {
  readonly session: string;
  readonly user: string;
  /** The open assistant message, or null between two. */
  message: string | null;
  hasStepStart: boolean;
  isRetrying: boolean;
  /** Messages that came while it was busy; Kilo goes on to them after the step. */
  readonly queued: string[];
  child: Run | null;
  /** Parts that an abort has to finish, with the form they take then. */
  openParts: Part[];
  wait<T>(work: Promise<T>): Promise<T>;
  stop(): void;
}

export function createRun(session: string, user: string): Run {
  let stop: () => void = () => undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(new Stopped());
  });
  stopped.catch(() => undefined /* a turn that waits for nothing is stopped all the same */);
  return {
    session,
    user,
    message: null,
    hasStepStart: false,
    isRetrying: false,
    queued: [],
    child: null,
    openParts: [],
    wait: (work) => Promise.race([work, stopped]),
    stop,
  };
}

export function assistant(run: Run, more: Record<string, unknown> = {}) {
  return {
    id: run.message ?? "",
    parentID: run.user,
    role: "assistant",
    mode: "build",
    agent: "build",
    modelID: "m1",
    providerID: "holdfast",
    cost: 0,
    tokens: { input: 7, output: 3, reasoning: 0, cache: { read: 0, write: 0 } },
    ...more,
    time: { created: Date.now(), ...(more.time as object | undefined) },
  };
}

export function openMessage(world: World, run: Run, more: Record<string, unknown> = {}): void {
  if (run.message !== null) return;
  run.message = world.newId("msg");
  run.hasStepStart = false;
  world.message(run.session, assistant(run, more));
  world.setStatus(run.session, { type: "busy" });
}

export function startStep(world: World, run: Run): string {
  openMessage(world, run);
  if (!run.hasStepStart) {
    run.hasStepStart = true;
    world.part(run.session, run.message ?? "", { id: world.newId("prt"), type: "step-start" });
  }
  return run.message ?? "";
}

export function finishMessage(
  world: World,
  run: Run,
  reason: string,
  more: Record<string, unknown> = {},
): void {
  world.part(run.session, run.message ?? "", { id: world.newId("prt"), type: "step-finish", reason });
  world.message(run.session, assistant(run, { finish: reason, ...more }));
  world.message(run.session, assistant(run, { finish: reason, ...more, time: { completed: Date.now() } }));
  run.message = null;
}

const ABORTED = { name: "MessageAbortedError", data: { message: "Aborted" } };

/** The first, provisional idle: the message is still open. */
function announceEnd(world: World, run: Run, error: unknown): void {
  world.emit(run.session, "session.error", { error });
  world.idle(run.session);
}

function closeMessage(world: World, run: Run, error: unknown, reason: CloseReason): void {
  for (const part of run.openParts.splice(0)) world.part(run.session, run.message ?? "", part);
  if (run.message !== null) {
    const more = error === null ? {} : { error };
    world.message(run.session, assistant(run, { ...more, time: { completed: Date.now() } }));
  }
  run.message = null;
  endRun(world, run, reason);
}

type CloseReason = "completed" | "error" | "interrupted" | "superseded";

/** The session's last idle; Kilo closes the bracket of the turn behind it, or before it when it was interrupted. */
export function endRun(world: World, run: Run, reason: CloseReason): void {
  const { session } = run;
  const parentID = world.sessions.get(session)?.parentID;
  const close = () => {
    if (world.isKilo) world.emit(session, "session.turn.close", { parentID, reason });
  };
  if (reason === "interrupted") close();
  world.idle(session);
  if (reason !== "interrupted") close();
  else if (world.isKilo && parentID === undefined) world.emit(session, "session.drain.interrupted", {});
}

/** A failure of the provider: error, provisional idle, the message with its error, final idle. */
export function failRun(world: World, run: Run, error: unknown): void {
  announceEnd(world, run, error);
  closeMessage(world, run, error, "error");
}

/** The order of an abort as it was captured: the child first, its parent's tool in between. */
export function abortRun(world: World, run: Run): void {
  const { child } = run;
  run.stop();
  child?.stop();
  if (child !== null && world.isKilo) {
    world.emit(child.session, "session.drain.interrupted", {});
    announceEnd(world, child, ABORTED);
    announceEnd(world, run, ABORTED);
    closeMessage(world, child, ABORTED, "interrupted");
    return closeMessage(world, run, ABORTED, "interrupted");
  }
  if (child !== null) {
    announceEnd(world, child, ABORTED);
    for (const part of run.openParts.splice(0)) world.part(run.session, run.message ?? "", part);
    closeMessage(world, child, ABORTED, "interrupted");
  }
  // In a retry wait there is no error, neither on the session nor on the message, and one idle.
  if (run.isRetrying) return closeMessage(world, run, null, "interrupted");
  announceEnd(world, run, ABORTED);
  closeMessage(world, run, ABORTED, "interrupted");
}
