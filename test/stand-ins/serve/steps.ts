// Plays the steps of a turn, in the order in which the captures have them.
import { spawn } from "node:child_process";
import { setTimeout as after } from "node:timers/promises";
import { type Held, playOffline, playTools } from "./asks.ts";
import {
  assistant,
  createRun,
  endRun,
  failRun,
  finishMessage,
  openMessage,
  type Run,
  Stopped,
  startStep,
} from "./run.ts";
import type { Step } from "./script.ts";
import type { World } from "./world.ts";

/**
 * Plays a whole busy period. Ends with the session idle, save where a step says otherwise. `rejected` when a request of
 * it was, which ends it at once; `superseded` when another message waits for its turn.
 */
export async function playTurn(
  world: World,
  run: Run,
  steps: Step[],
  held: Held,
): Promise<"ended" | "rejected" | "superseded"> {
  // Kilo's Task children go on after a reject.
  const goesOn = world.isKilo && world.sessions.get(run.session)?.parentID !== undefined;
  let isRejected = false;
  if (world.isKilo) world.emit(run.session, "session.turn.open", {});
  world.setStatus(run.session, { type: "busy" });
  try {
    for (const step of steps) {
      if (isRejected) break;
      const result = await run.wait(playStep(world, run, step, held));
      if (result === "over") return "ended";
      isRejected = result === "rejected" && !goesOn;
      if (run.queued.length > 0 && result !== "same") {
        endRun(world, run, "superseded");
        return "superseded";
      }
      if (result === "loop" || (result === "rejected" && goesOn)) {
        world.setStatus(run.session, { type: "busy" });
      }
    }
    // A turn that has said nothing at the end of its steps stays open, as one whose model is silent does.
    if (run.message !== null) await run.wait(new Promise<never>(() => undefined));
    endRun(world, run, "completed");
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
  }
  return isRejected ? "rejected" : "ended";
}

/** `loop`: the model would be called again. `rejected`: the turn ends here. `same`: within the same message. */
type Result = "loop" | "rejected" | "same" | "over";

async function playStep(world: World, run: Run, step: Step, held: Held): Promise<Result> {
  const { session } = run;
  if ("emit" in step) {
    world.bus.emit(world.sessions.get(session)?.directory ?? "", step.emit);
    return "same";
  }
  if ("stream" in step) {
    world.bus.fault(world.sessions.get(session)?.directory ?? "", step.stream);
    return "same";
  }
  if ("transient" in step) return playTransient(world, run, step.transient);
  openMessage(world, run);
  if ("hold" in step) {
    await run.wait(held.wait());
    return "same";
  }
  if ("fail" in step) {
    failRun(world, run, { name: step.fail, data: { message: step.message, isRetryable: false } });
    return "over";
  }
  if ("retry" in step) return playRetry(world, run, step);
  if ("cut" in step) {
    playText(world, run, step.cut, 1, false);
    if (world.isKilo) {
      failRun(world, run, { name: "APIError", data: { message: "Connection reset by server" } });
      return "over";
    }
    return playRetry(world, run, { retry: "Connection reset by server", inMs: 5, goesOn: true });
  }
  if ("offline" in step) return playOffline(world, run, step);
  if ("overflow" in step) return playOverflow(world, run);
  if ("text" in step) {
    playText(world, run, step.text, step.pieces ?? 4, true);
    finishMessage(world, run, "stop");
    return "loop";
  }
  if ("open" in step) {
    playText(world, run, step.open, 1, false);
    return run.wait(new Promise<never>(() => undefined));
  }
  if ("running" in step) {
    const tool = { id: world.newId("prt"), type: "tool", tool: step.running, callID: world.newId("call") };
    const message = startStep(world, run);
    world.part(run.session, message, { ...tool, state: { status: "pending", input: {} } });
    world.part(run.session, message, { ...tool, state: { status: "running", input: {} } });
    run.openParts.push({ ...tool, state: { status: "completed", output: "User aborted the command" } });
    return run.wait(new Promise<never>(() => undefined));
  }
  if ("reasoning" in step) {
    playText(world, run, step.reasoning, 2, true, "reasoning");
    return "same";
  }
  if ("task" in step) return playTask(world, run, step, held);
  return playTools(world, run, step, leaveChild);
}

function playText(
  world: World,
  run: Run,
  text: string,
  pieces: number,
  isWhole: boolean,
  type = "text",
): void {
  const message = startStep(world, run);
  const id = world.newId("prt");
  const time = { start: Date.now() };
  world.part(run.session, message, { id, type, text: "", time });
  const size = Math.max(1, Math.ceil(text.length / pieces));
  for (let at = 0; at < text.length; at += size) {
    const delta = text.slice(at, at + size);
    world.emit(run.session, "message.part.delta", { messageID: message, partID: id, field: "text", delta });
  }
  const final = { id, type, text, time: { ...time, end: Date.now() } };
  if (isWhole) world.part(run.session, message, final);
  else run.openParts.push(final);
}

/** Kilo's own text parts while it makes its snapshot: in the answer's message, and taken back. */
async function playTransient(world: World, run: Run, count: number): Promise<Result> {
  run.message = world.newId("msg");
  run.hasStepStart = false;
  world.message(run.session, assistant(run));
  const id = world.newId("prt");
  const metadata = { "kilocode.lifecycle": "transient" };
  for (let number = 0; number < count; number += 1) {
    const text = `${"⠋⠙⠹⠸"[number % 4]} Initializing snapshot…`;
    world.part(run.session, run.message, { id, type: "text", text, synthetic: true, metadata });
    await run.wait(after(60));
  }
  world.emit(run.session, "message.part.removed", { messageID: run.message, partID: id });
  world.setStatus(run.session, { type: "busy" });
  return "same";
}

async function playRetry(
  world: World,
  run: Run,
  step: { retry: string; inMs: number; goesOn?: boolean },
): Promise<Result> {
  run.isRetrying = true;
  world.setStatus(run.session, {
    type: "retry",
    attempt: 1,
    message: step.retry,
    next: Date.now() + step.inMs,
  });
  await run.wait(
    new Promise<void>((resolve) => {
      if (step.goesOn !== false) setTimeout(resolve, step.inMs);
    }),
  );
  run.isRetrying = false;
  run.hasStepStart = false;
  // The abandoned part of the attempt is never finished.
  run.openParts = [];
  world.setStatus(run.session, { type: "busy" });
  return "same";
}

/** The provider says the context is full: the CLI compacts by itself and goes on with a message of its own. */
async function playOverflow(world: World, run: Run): Promise<Result> {
  const { session } = run;
  world.emit(session, "session.error", {
    error: { name: "ContextOverflowError", data: { message: "too long" } },
  });
  world.message(session, assistant(run, { time: { completed: Date.now() } }));
  run.message = null;
  const compaction = world.newId("msg");
  world.message(session, { id: compaction, role: "user", time: { created: Date.now() } });
  world.part(session, compaction, { id: world.newId("prt"), type: "compaction", auto: true, overflow: true });
  world.setStatus(session, { type: "busy" });
  const summing: Run = { ...run, user: compaction };
  openMessage(world, summing, { summary: true, mode: "compaction" });
  playText(world, summing, "## Goal\nthe summary", 1, true);
  finishMessage(world, summing, "stop", { summary: true });
  const onward = world.newId("msg");
  world.message(session, { id: onward, role: "user", time: { created: Date.now() } });
  const time = { start: Date.now(), end: Date.now() };
  world.part(session, onward, { id: world.newId("prt"), type: "text", synthetic: true, text: "go on", time });
  world.emit(session, "session.compacted", {});
  return "loop";
}

async function playTask(
  world: World,
  run: Run,
  step: Extract<Step, { task: Step[] }>,
  held: Held,
): Promise<Result> {
  const message = startStep(world, run);
  const tool = { id: world.newId("prt"), type: "tool", tool: "task", callID: world.newId("call") };
  const directory = world.sessions.get(run.session)?.directory ?? "";
  world.part(run.session, message, { ...tool, state: { status: "pending", input: {} } });
  const child = world.create(directory, run.session);
  if (world.isKilo) {
    world.part(run.session, message, { ...tool, state: { status: "running", input: {} } });
    world.emit(child.id, "sandbox.status.changed", { directory, enabled: false });
  }
  if (step.lookups !== undefined) world.hidden.set(child.id, step.lookups);
  if (step.unseen !== true) {
    world.emit(child.id, "session.created", {
      info: { id: child.id, parentID: run.session, directory, title: "explore" },
    });
  }
  const metadata = { parentSessionId: run.session, sessionId: child.id };
  world.part(run.session, message, { ...tool, state: { status: "running", input: {}, metadata } });
  const failed = { ...tool, state: { status: "error", error: "child" } };
  run.openParts.push(failed);
  if (step.idle === true) {
    run.openParts.pop();
    world.part(run.session, message, failed);
    finishMessage(world, run, "tool-calls");
    return "loop";
  }
  const user = addUser(world, child.id, world.newId("msg"), [
    { id: world.newId("prt"), type: "text", text: "the task" },
  ]);
  const childRun = createRun(child.id, user);
  run.child = childRun;
  const isRejected = (await run.wait(playTurn(world, childRun, step.task, held))) === "rejected";
  run.child = null;
  run.openParts.pop();
  if (world.isKilo)
    world.part(run.session, message, { ...tool, state: { status: "running", input: {}, metadata } });
  const completed = { ...tool, state: { status: "completed", output: "child done", title: "task" } };
  world.part(run.session, message, isRejected ? failed : completed);
  finishMessage(world, run, "tool-calls");
  return "loop";
}

export function addUser(
  world: World,
  session: string,
  id: string,
  parts: Array<Record<string, unknown> & { id: string; type: string }>,
): string {
  world.message(session, { id, role: "user", agent: "build", time: { created: Date.now() } });
  for (const part of parts) world.part(session, id, part);
  return id;
}

/** A shell child in a session of its own, as OpenCode's are: no signal to the server's group reaches it. */
function leaveChild(): void {
  spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" }).unref();
}
