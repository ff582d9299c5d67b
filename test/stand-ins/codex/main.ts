// `codex app-server`, played badly on demand: node main.ts SCRIPT.json [codex's own arguments]. Its plain turn has the
// shape of the recorded ones (test/captures/codex); what it does beyond that is in the script.
import { appendFileSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Script, Step } from "./script.ts";

const [scriptPath = ""] = process.argv.slice(2);
const script = JSON.parse(readFileSync(scriptPath, "utf8")) as Script;
const THREAD = "01a22ce0-0000-7000-8000-000000000001";

const counts = new Map<string, number>();
let prompts = 0;
let thread = THREAD;
let turn = "";
let message = "";
let wake: () => void = () => undefined;

const print = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`);
const notify = (method: string, params: Record<string, unknown>) => print({ method, params });
const filled = (text: string) =>
  text.replaceAll("THREAD", thread).replaceAll("TURN", turn).replaceAll("MESSAGE", message);

const TOKENS = {
  totalTokens: 110,
  inputTokens: 100,
  cachedInputTokens: 0,
  cacheWriteInputTokens: 0,
  outputTokens: 10,
  reasoningOutputTokens: 0,
};

function item(isEnd: boolean, more: Record<string, unknown>): void {
  notify(isEnd ? "item/completed" : "item/started", { item: more, threadId: thread, turnId: turn });
}

function say(text: string, id: string): void {
  const said = { type: "agentMessage", id, text: "", phase: null };
  item(false, said);
  const middle = Math.floor(text.length / 2);
  for (const delta of [text.slice(0, middle), text.slice(middle)])
    notify("item/agentMessage/delta", { threadId: thread, turnId: turn, itemId: id, delta });
  item(true, { ...said, text });
}

function end(status: string, id: string, error: unknown): void {
  notify("thread/status/changed", { threadId: thread, status: { type: "idle" } });
  const ended = { id, rootTurnId: id, items: [], itemsView: "summary", status, error, durationMs: 1 };
  notify("turn/completed", { threadId: thread, turn: ended });
}

async function perform(steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    if ("print" in step) print(JSON.parse(filled(JSON.stringify(step.print))));
    else if ("raw" in step) process.stdout.write(filled(step.raw));
    else if ("say" in step) say(step.say, step.item ?? `msg_${prompts}`);
    else if ("end" in step) end(step.end, step.turn ?? turn, step.error ?? null);
    else if ("until" in step) {
      while ((counts.get(step.until) ?? 0) === 0)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    } else if ("exit" in step) process.exit(step.exit);
    else if ("kill" in step) process.kill(process.pid, "SIGKILL");
    else process.stdout.end();
  }
}

const PLAIN: Step[] = [
  { say: "Played." },
  {
    print: {
      method: "thread/tokenUsage/updated",
      params: { threadId: "THREAD", turnId: "TURN", tokenUsage: { total: TOKENS, last: TOKENS } },
    },
  },
  { end: "completed" },
];

async function prompt(id: number, clientId: string): Promise<void> {
  const plan = script.prompts?.[Math.min(prompts, script.prompts.length - 1)] ?? {};
  prompts += 1;
  message = clientId;
  turn = plan.turn ?? `01a22ce0-1111-7000-8000-00000000000${prompts}`;
  const named = { id: turn, rootTurnId: turn, items: [], itemsView: "notLoaded", error: null };
  const answer = () => print({ id, result: { turn: { ...named, status: "inProgress" } } });
  if (plan.isLate !== true) answer();
  if (plan.isSilent === true) return;
  notify("thread/status/changed", { threadId: thread, status: { type: "active", activeFlags: [] } });
  notify("turn/started", { threadId: thread, turn: { ...named, status: "inProgress" } });
  const content = [{ type: "text", text: "", text_elements: [] }];
  for (const isEnd of [false, true])
    item(isEnd, { type: "userMessage", id: `usr_${prompts}`, clientId, content });
  if (plan.isLate === true) answer();
  await perform(plan.steps ?? PLAIN);
}

interface Call {
  id: number;
  method: string;
  params?: { threadId?: string; cwd?: string; clientUserMessageId?: string };
}

function usualThread(cwd: string): Record<string, unknown> {
  return { id: thread, path: null, cwd, status: { type: "idle" }, ...script.thread };
}

async function answer({ id, method, params = {} }: Call): Promise<void> {
  const seen = counts.get(method) ?? 1;
  const refusals = script.refuse?.[method];
  const refusal = refusals?.[Math.min(seen, refusals.length) - 1] ?? null;
  if (script.deafTo?.includes(method)) return;
  if (refusal !== null) return void print({ id, error: { code: -32600, message: filled(refusal) } });
  if (method === "initialize") {
    const userAgent = script.userAgent ?? "holdfast/0.171.0 (Debian 12.0.0; x86_64) unknown (holdfast; 1)";
    return void print({ id, result: { userAgent, codexHome: "/home/agent/.codex" } });
  }
  if (method === "thread/start" || method === "thread/resume") {
    const made =
      script.hasOwnThread === true ? THREAD.slice(0, -8) + String(process.pid).padStart(8, "0") : THREAD;
    thread = params.threadId ?? made;
    const cwd = params.cwd ?? process.cwd();
    print({ id, result: { thread: usualThread(cwd), cwd, ...script.opened } });
    return perform(script.opening ?? []);
  }
  if (method === "config/read")
    return void print({ id, result: { config: { mcp_servers: script.servers } } });
  if (method === "thread/read") {
    const read = script.read?.[Math.min(seen, script.read.length) - 1];
    return void print({ id, result: { thread: { ...usualThread(process.cwd()), ...read } } });
  }
  if (method === "turn/start") return prompt(id, params.clientUserMessageId ?? "");
  print({ id, result: {} });
  if (method === "turn/interrupt" && params.threadId === thread)
    await perform(script.interrupted ?? [{ end: "interrupted" }]);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  if (script.readPath !== undefined) appendFileSync(script.readPath, `${line}\n`);
  const read = JSON.parse(line) as Partial<Call>;
  const what = read.method ?? `reply ${read.id}`;
  counts.set(what, (counts.get(what) ?? 0) + 1);
  wake();
  if (read.method !== undefined && read.id !== undefined) void answer(read as Call);
});
process.on("SIGUSR2", () => void perform(script.signalled ?? []));
process.stdin.on("end", () => process.exit(0));
