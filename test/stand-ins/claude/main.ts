// Claude Code on stream-json, played badly on demand: node main.ts SCRIPT.json [Claude Code's own arguments]. Its plain turn
// has the shape of the recorded ones (test/captures/claude); what it does beyond that is in the script. What it read is in
// `lines.ndjson` beside the script.
import { appendFileSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as after } from "node:timers/promises";
import type { Flood, Script, Step } from "./script.ts";

const [scriptPath = "", ...args] = process.argv.slice(2);
const script = JSON.parse(readFileSync(scriptPath, "utf8")) as Script;
const told = args[args.findIndex((each) => each === "--session-id" || each === "--resume") + 1] ?? "";
const session = script.session ?? told;
/** Kinds of what was read and no step has waited for. */
const seen: string[] = [];
let wake: () => void = () => undefined;
let turns = 0;
let answers = 0;
let mode = args[args.indexOf("--permission-mode") + 1];

const write = (text: string) =>
  new Promise<void>((resolve) => void process.stdout.write(text, () => resolve()));
const print = (message: object) => write(`${JSON.stringify(message)}\n`);

const RESULT = {
  type: "result",
  subtype: "success",
  is_error: false,
  num_turns: 1,
  stop_reason: "end_turn",
  terminal_reason: "completed",
  usage: { input_tokens: 100, output_tokens: 10, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  session_id: session,
};

async function perform(step: Step, own: string): Promise<void> {
  if ("print" in step) {
    const text = JSON.stringify(step.print).replaceAll("OWN", own).replaceAll("SESSION", session);
    await write(`${text}\n`);
  } else if ("raw" in step) await write(step.raw);
  else if ("bytewise" in step) {
    for (const byte of Buffer.from(step.bytewise.replaceAll("SESSION", session))) {
      process.stdout.write(Buffer.of(byte));
      await after(0);
    }
  } else if ("stderr" in step) process.stderr.write(step.stderr);
  else if ("begin" in step) await begin(own);
  else if ("answer" in step) await say([step.answer]);
  else if ("result" in step) await print({ ...RESULT, ...step.result });
  else if ("lineBytes" in step) {
    const [head, tail] = ['{"type":"big","text":"', '"}\n'];
    await write(head + "x".repeat(step.lineBytes - head.length - tail.length) + tail);
  } else if ("flood" in step) await flood(step.flood);
  else if ("endless" in step) for (;;) await write("x".repeat(64 * 1024));
  else if ("until" in step) {
    for (let at = seen.indexOf(step.until); at < 0; at = seen.indexOf(step.until)) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    seen.splice(seen.indexOf(step.until), 1);
  } else if ("afterMs" in step) await after(step.afterMs);
  else if ("closeStdout" in step) process.stdout.end();
  else process.exit(step.exit);
}

async function begin(own: string): Promise<void> {
  const more = { session_id: session };
  await print({ type: "command_lifecycle", command_uuid: own, state: "queued", ...more });
  await print({ type: "command_lifecycle", command_uuid: own, state: "started", ...more });
  await print({ type: "system", subtype: "init", slash_commands: [], ...more });
  const message = { role: "user", content: [{ type: "text", text: "as it was" }] };
  await print({ type: "user", uuid: own, message, parent_tool_use_id: null, isReplay: true, ...more });
}

async function flood({ messages, pieces, chars }: Flood): Promise<void> {
  const piece = "x".repeat(chars);
  for (let at = 0; at < messages; at += 1) await say(Array.from({ length: pieces }, () => piece));
  appendFileSync(`${scriptPath}.done`, ".");
}

/** One message of the model, its text in these pieces. */
async function say(pieces: readonly string[]): Promise<void> {
  answers += 1;
  const more = { session_id: session, parent_tool_use_id: null };
  const stream = (event: object) => print({ type: "stream_event", event, ...more });
  const usage = { input_tokens: 100, output_tokens: 1 };
  const head = { id: `msg_${answers}`, type: "message", role: "assistant", model: "m1", usage };
  await stream({ type: "message_start", message: { ...head, content: [] } });
  await stream({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
  for (const text of pieces)
    await stream({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  await print({
    type: "assistant",
    uuid: `00000000-0000-4000-8000-${String(answers).padStart(12, "0")}`,
    message: { ...head, content: [{ type: "text", text: pieces.join("") }] },
    ...more,
  });
  await stream({ type: "content_block_stop", index: 0 });
  await stream({ type: "message_stop" });
}

const PLAIN: Step[] = [{ begin: true }, { answer: "Played." }, { result: {} }];

async function control(id: string, request: { subtype: string; mode?: string }): Promise<void> {
  const { subtype } = request;
  if (script.deafTo?.includes(subtype) === true) return;
  const response =
    script.refuses?.includes(subtype) === true
      ? { subtype: "error", request_id: id, error: `Unsupported control request subtype: ${subtype}` }
      : { subtype: "success", request_id: id, response: subtype === "interrupt" ? { still_queued: [] } : {} };
  await print({ type: "control_response", response });
  if (subtype !== "set_permission_mode" || request.mode === mode) return;
  mode = request.mode;
  await print({ type: "system", subtype: "status", status: null, permissionMode: mode, session_id: session });
}

async function user(own: string): Promise<void> {
  const plan = script.turns?.[Math.min(turns, script.turns.length - 1)] ?? PLAIN;
  turns += 1;
  for (const step of plan) await perform(step, own);
}

if (script.ignoresSigterm === true) process.on("SIGTERM", () => undefined);
for (const step of script.start ?? []) await perform(step, "");

const input = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
input.on("line", (line) => {
  appendFileSync(join(dirname(scriptPath), "lines.ndjson"), `${line}\n`);
  const message = JSON.parse(line) as {
    type: string;
    uuid?: string;
    request_id?: string;
    request?: { subtype: string };
  };
  seen.push(message.request?.subtype ?? message.type);
  wake();
  if (message.request !== undefined) void control(message.request_id ?? "", message.request);
  if (message.type === "user") void user(message.uuid ?? "");
});
input.once("close", () => {
  if (script.staysBehindInput === true) setInterval(() => undefined, 60_000);
  else setTimeout(() => process.exit(0), script.endsAfterMs ?? 0);
});
