// Pi in rpc mode, played badly on demand: node main.ts SCRIPT.json [pi's own arguments]. Its plain turn has the shape of
// the recorded ones (test/captures/pi); what it does beyond that is in the script.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { SETUP_VARIABLE, type Setup, STATUS_KEY } from "../../../bridge/drivers/pi/extension/words.ts";
import type { Script, Step } from "./script.ts";

const [scriptPath = "", ...args] = process.argv.slice(2);
const script = JSON.parse(readFileSync(scriptPath, "utf8")) as Script;
const setup = JSON.parse(process.env[SETUP_VARIABLE] ?? "") as Setup;
const resumed = args.indexOf("--session");
const sessionId = resumed < 0 ? "01a22ce0-0000-7000-8000-000000000001" : (args[resumed + 1] ?? "");

interface Entry {
  type: string;
  id: string;
  parentId: string | null;
  message: { role: string; timestamp?: number };
}

const entries: Entry[] = (script.entries ?? []).map(([id, parentId, role]) => ({
  type: "message",
  id,
  parentId,
  message: { role },
}));
/** Lines of each type that came since the prompt, and that no step has waited for. */
const read = new Map<string, number>();
const deaf = new Set<string>();
let state: Record<string, unknown> = script.state ?? {};
let time = Date.now();
let prompts = 0;
let wake: () => void = () => undefined;

const print = (message: unknown) => process.stdout.write(`${JSON.stringify(message)}\n`);

function store(role: string, timestamp: number): void {
  const id = `e${entries.length + 1}`.padStart(8, "0");
  const parentId = entries.at(-1)?.id ?? null;
  entries.push({ type: "message", id, parentId, message: { role, timestamp } });
}

function say(role: string, text: string, more: Record<string, unknown> = {}): void {
  time += 1;
  const message = { role, content: text === "" ? [] : [{ type: "text", text }], timestamp: time, ...more };
  print({ type: "message_start", message: { ...message, content: [] } });
  print({ type: "message_end", message });
}

const USAGE = { input: 10, output: 5, cacheRead: 0, cacheWrite: 0, reasoning: 0, totalTokens: 15 };

async function perform(steps: readonly Step[], own: string): Promise<void> {
  for (const step of steps) {
    if ("print" in step) print(JSON.parse(JSON.stringify(step.print).replaceAll("OWN", own)));
    else if ("raw" in step) process.stdout.write(step.raw);
    else if ("stderr" in step) process.stderr.write(step.stderr);
    else if ("answer" in step) {
      say("assistant", step.answer, { stopReason: step.stopReason ?? "stop", usage: USAGE });
      if (step.isStored !== false) store("assistant", time);
    } else if ("until" in step) {
      while ((read.get(step.until) ?? 0) === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      read.set(step.until, (read.get(step.until) ?? 0) - 1);
    } else if ("exit" in step) process.exit(step.exit);
    else if ("kill" in step) process.kill(process.pid, "SIGKILL");
    else if ("closeStdout" in step) process.stdout.end();
    else if ("state" in step) state = { ...state, ...step.state };
    else deaf.add(step.deafTo);
  }
}

async function prompt(id: string, message: string): Promise<void> {
  const plan = script.prompts?.[Math.min(prompts, script.prompts.length - 1)];
  prompts += 1;
  read.clear();
  await perform(plan?.before ?? [], message);
  if (plan?.refused !== undefined) {
    print({ id, type: "response", command: "prompt", success: false, error: plan.refused });
    return;
  }
  const disposition = plan?.disposition ?? "started";
  print({ id, type: "response", command: "prompt", success: true, data: { disposition } });
  if (disposition !== "started") return;
  print({ type: "agent_start" });
  print({ type: "turn_start" });
  time += 1;
  const user = { role: "user", content: [{ type: "text", text: message }], timestamp: time };
  print({ type: "message_start", message: user });
  print({ type: "message_end", message: user });
  store("user", time);
  await perform(plan?.steps ?? PLAIN, message);
}

const PLAIN: Step[] = [
  { answer: "Played." },
  { print: { type: "agent_end", messages: [], willRetry: false } },
  { print: { type: "agent_settled", aborted: false } },
];

function answer(id: string, command: { type: string; since?: string; message?: string }): void {
  if (command.type === "prompt") return void prompt(id, command.message ?? "");
  const respond = (more: Record<string, unknown>) =>
    print({ id, type: "response", command: command.type, ...more });
  if (command.type === "get_state") {
    const data = {
      sessionId,
      isStreaming: false,
      isCompacting: false,
      messageCount: entries.length,
      pendingMessageCount: 0,
      model: { id: setup.model.name, provider: "holdfast" },
      ...state,
    };
    return void respond({ success: true, data });
  }
  if (command.type === "get_entries") {
    const at = entries.findIndex((entry) => entry.id === command.since);
    if (command.since !== undefined && at < 0)
      return void respond({ success: false, error: `Entry not found: ${command.since}` });
    const data = { entries: entries.slice(at + 1), leafId: entries.at(-1)?.id ?? null };
    return void respond({ success: true, data });
  }
  respond({ success: true });
}

await perform(script.start ?? [], "");
if (script.hello !== null) {
  const hello = {
    say: "hello",
    version: "1.6.0",
    cwd: process.cwd(),
    entries: entries.length,
    isWhole: true,
    ...script.hello,
  };
  print({
    type: "extension_ui_request",
    id: "hello",
    method: "setStatus",
    statusKey: STATUS_KEY,
    statusText: JSON.stringify(hello),
  });
}

// As pi does: nothing is read before its extensions have started.
createInterface({ input: process.stdin }).on("line", (line) => {
  const command = JSON.parse(line) as { id: string; type: string };
  read.set(command.type, (read.get(command.type) ?? 0) + 1);
  wake();
  if (!deaf.has(command.type) && command.type !== "extension_ui_response") answer(command.id, command);
});
process.stdin.on("end", () => process.exit(0));
