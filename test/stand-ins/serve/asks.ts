// Tools that ask: permissions and questions, and the replies to them.
import { failRun, finishMessage, openMessage, type Run, startStep } from "./run.ts";
import type { AskPlan, QuestionPlan, Step } from "./script.ts";
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
  if ("question" in step) return playQuestion(world, run, message, step.question);
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

const COLOR = {
  question: "Pick a color",
  header: "Color",
  options: [
    { label: "red", description: "r" },
    { label: "blue", description: "b" },
  ],
};

async function playQuestion(
  world: World,
  run: Run,
  message: string,
  plan: QuestionPlan,
): Promise<"loop" | "rejected"> {
  const { session } = run;
  const tool = { id: world.newId("prt"), type: "tool", tool: "question", callID: world.newId("call") };
  const show = (state: Record<string, unknown>) => world.part(session, message, { ...tool, state });
  show({ status: "pending", input: {} });
  const answer = new Promise<string>((settle) => {
    const id = world.newId("que");
    const raw = {
      id,
      sessionID: session,
      questions: plan.items ?? [COLOR],
      tool: { messageID: message, callID: tool.callID },
    };
    world.questions.set(id, { id, sessionID: session, replies: plan.replies ?? ["ok"], settle, raw });
    if (plan.silent !== true) world.emit(session, "question.asked", raw);
  });
  show({ status: "running", input: {} });
  run.openParts.push({ ...tool, state: { status: "error", error: "aborted" } });
  const reply = await run.wait(answer);
  run.openParts = run.openParts.filter(({ id }) => id !== tool.id);
  if (world.isKilo) show({ status: "running", input: {} });
  const isFailed = reply === "reject" && !world.isKilo;
  show(isFailed ? { status: "error", error: "rejected" } : { status: "completed", output: reply });
  finishMessage(world, run, "tool-calls");
  return reply === "reject" ? "rejected" : "loop";
}

/** Kilo parks the turn until somebody says what to do about a provider that is out of reach. */
export async function playOffline(
  world: World,
  run: Run,
  step: { offline: string; times?: number },
): Promise<"same" | "over"> {
  const { session } = run;
  openMessage(world, run);
  run.isRetrying = true;
  for (let left = step.times ?? 1; left > 0; left -= 1) {
    const id = world.newId("que");
    const answer = new Promise<string>((settle) => {
      const raw = { id, sessionID: session, message: step.offline, restored: false };
      world.network.set(id, { id, sessionID: session, replies: ["ok"], settle, raw });
      world.emit(session, "session.network.asked", raw);
    });
    world.setStatus(session, { type: "offline", requestID: id, message: step.offline });
    if ((await run.wait(answer)) === "reject") {
      failRun(world, run, { name: "APIError", data: { message: step.offline, isRetryable: true } });
      return "over";
    }
    world.setStatus(session, { type: "retry", attempt: 0, message: "Reconnected", next: Date.now() });
  }
  run.isRetrying = false;
  world.setStatus(session, { type: "busy" });
  return "same";
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

export function replyQuestion(world: World, pending: Pending, answers: string[][] | null): void {
  world.questions.delete(pending.id);
  const told = answers === null ? "question.rejected" : "question.replied";
  world.emit(pending.sessionID, told, { requestID: pending.id, ...(answers === null ? {} : { answers }) });
  pending.settle(answers === null ? "reject" : JSON.stringify(answers));
}

export function replyNetwork(world: World, pending: Pending, reply: "reply" | "reject"): void {
  world.network.delete(pending.id);
  const told = reply === "reply" ? "session.network.replied" : "session.network.rejected";
  world.emit(pending.sessionID, told, { requestID: pending.id });
  pending.settle(reply);
}
