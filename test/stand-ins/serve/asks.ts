// Tools that ask: permissions and questions, and the replies to them.
import { finishMessage, type Run, startStep } from "./run.ts";
import type { AskPlan, Step } from "./script.ts";
import type { Pending, World } from "./world.ts";

/** What waits for the test's word. */
export interface Held {
  wait(): Promise<void>;
  go(): void;
}

export function createHeld(): Held {
  let go: () => void = () => undefined;
  return {
    wait: () =>
      new Promise((resolve) => {
        go = resolve;
      }),
    go: () => go(),
  };
}

/** Tools of one message, each with its request; the step ends when all are answered. */
export async function playTools(
  world: World,
  run: Run,
  step: Step,
  leaveChild: () => void,
): Promise<"loop" | "rejected" | "same"> {
  const message = startStep(world, run);
  if ("question" in step) return playQuestion(world, run, message);
  if ("tools" in step) {
    const replies = await Promise.all(step.tools.map((ask) => playTool(world, run, message, "bash", ask)));
    finishMessage(world, run, "tool-calls");
    return replies.includes("reject") ? "rejected" : "loop";
  }
  if (!("tool" in step)) return "same";
  if (step.leavesChild === true) leaveChild();
  const reply = await playTool(world, run, message, step.tool, step.ask ?? null);
  finishMessage(world, run, "tool-calls");
  return reply === "reject" ? "rejected" : "loop";
}

async function playTool(
  world: World,
  run: Run,
  message: string,
  name: string,
  ask: AskPlan | null,
): Promise<string> {
  const { session } = run;
  const tool = { id: world.newId("prt"), type: "tool", tool: name, callID: world.newId("call") };
  const show = (state: Record<string, unknown>) => world.part(session, message, { ...tool, state });
  show({ status: "pending", input: {} });
  if (ask === null) {
    show({ status: "running", input: {} });
    show({ status: "completed", output: "out", title: name });
    return "once";
  }
  run.openParts.push({ ...tool, state: { status: "error", error: "aborted" } });
  if (ask.first !== true) show({ status: "running", input: {} });
  const answer = new Promise<string>((settle) => {
    const id = world.newId("per");
    const raw = {
      id,
      sessionID: session,
      permission: name,
      patterns: ["ls -la"],
      metadata: { command: "ls -la" },
      always: ["ls *"],
      tool: { messageID: message, callID: tool.callID },
    };
    world.permissions.set(id, { id, sessionID: session, replies: ask.replies ?? ["ok"], settle, raw });
    if (ask.silent !== true) world.emit(session, "permission.asked", raw);
  });
  if (ask.first === true) show({ status: "running", input: {} });
  const reply = await run.wait(answer);
  run.openParts = run.openParts.filter(({ id }) => id !== tool.id);
  if (reply === "reject") show({ status: "error", error: "The user rejected permission" });
  else {
    show({ status: "running", input: {}, metadata: { output: "" } });
    show({ status: "completed", output: "out", title: name });
  }
  return reply;
}

async function playQuestion(world: World, run: Run, message: string): Promise<"loop" | "rejected"> {
  const { session } = run;
  const tool = { id: world.newId("prt"), type: "tool", tool: "question", callID: world.newId("call") };
  const show = (state: Record<string, unknown>) => world.part(session, message, { ...tool, state });
  show({ status: "pending", input: {} });
  const answer = new Promise<string>((settle) => {
    const id = world.newId("que");
    const raw = { id, sessionID: session, questions: [{ question: "Which?", header: "Q", options: [] }] };
    world.questions.set(id, { id, sessionID: session, replies: ["ok"], settle, raw });
    world.emit(session, "question.asked", raw);
  });
  show({ status: "running", input: {} });
  run.openParts.push({ ...tool, state: { status: "error", error: "aborted" } });
  const reply = await run.wait(answer);
  run.openParts = run.openParts.filter(({ id }) => id !== tool.id);
  show(reply === "reject" ? { status: "error", error: "rejected" } : { status: "completed", output: "blue" });
  finishMessage(world, run, "tool-calls");
  return reply === "reject" ? "rejected" : "loop";
}

/** Takes effect as the real server's: a reject takes every other request of the session with it. */
export function replyPermission(world: World, pending: Pending, reply: string): void {
  const settled =
    reply === "reject"
      ? [...world.permissions.values()].filter(({ sessionID }) => sessionID === pending.sessionID)
      : [pending];
  for (const one of [pending, ...settled.filter((other) => other !== pending)]) {
    world.permissions.delete(one.id);
    world.emit(one.sessionID, "permission.replied", { requestID: one.id, reply });
  }
  for (const one of settled) one.settle(reply);
}

export function rejectQuestion(world: World, pending: Pending): void {
  world.questions.delete(pending.id);
  world.emit(pending.sessionID, "question.rejected", { requestID: pending.id });
  pending.settle("reject");
}
