// Plays one step on one response: waits, writes, ends or breaks it, and says how it ended. Which step it is
// was decided in scripts.ts; what the bytes look like, by the protocol.
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Clock } from "./clock.ts";
import type { NeutralRequest, StreamWriter, ToolCall, Usage, WireProtocol } from "./neutral.ts";
import type { Ending } from "./records.ts";
import { chunksOf, type ReplyStep, type Step, type UsageInput } from "./steps.ts";

export interface Stage {
  readonly response: ServerResponse;
  readonly protocol: WireProtocol;
  readonly request: NeutralRequest;
  readonly clock: Clock;
  /** Aborts when the client is gone or the server closes; then `play` rejects. */
  readonly signal: AbortSignal;
  readonly makeId: () => string;
  /** Told right before the player breaks the connection, so that the break is not taken for the client's. */
  readonly breaking: (ending: "cut" | "destroyed") => void;
}

type Played = Exclude<Ending, "open">;

/** What a reply has when its step says nothing of usage: small, and not zero. */
const DEFAULT_USAGE: Usage = {
  inputTokens: 100,
  outputTokens: 10,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};
const NO_TOKENS: Usage = { ...DEFAULT_USAGE, inputTokens: 0, outputTokens: 0 };

export async function play(step: Step, stage: Stage, isFailure: boolean): Promise<Played> {
  if (isFailure && step.failFirst !== undefined) {
    if (!("step" in step.failFirst)) return sendStatus(stage, step.failFirst);
    return play(step.failFirst.step, stage, false);
  }
  if (step.beforeFirstByteMs !== undefined) await stage.clock.sleep(step.beforeFirstByteMs, stage.signal);
  if (step.kind === "status") return sendStatus(stage, step);
  if (step.kind === "contextOverflow") return overflow(stage, step.message);
  if (step.kind === "destroy") {
    stage.breaking("destroyed");
    stage.response.destroy();
    return "destroyed";
  }
  return stage.request.stream ? playStream(step, stage) : playWhole(step, stage);
}

async function overflow(stage: Stage, message = stage.protocol.overflowMessage): Promise<Played> {
  const { protocol, request } = stage;
  if (!protocol.isOverflowInStream || !request.stream) {
    return sendStatus(stage, protocol.contextOverflow(message));
  }
  return playStream({ kind: "errorChunk", message, reason: "contextOverflow" }, stage);
}

export function sendStatus(
  stage: Pick<Stage, "response" | "protocol">,
  answer: { status: number; headers?: Record<string, string> | undefined; body?: unknown },
): "status" {
  const body = answer.body ?? stage.protocol.error(answer.status, `scripted status ${answer.status}`);
  const isText = typeof body === "string";
  const type = isText ? "text/plain; charset=utf-8" : "application/json";
  stage.response.writeHead(answer.status, { "content-type": type, ...answer.headers });
  stage.response.end(isText ? body : JSON.stringify(body));
  return "status";
}

type BodyStep = Exclude<Step, { kind: "status" | "contextOverflow" | "destroy" }>;

async function playStream(step: BodyStep, stage: Stage): Promise<Played> {
  const { response, clock, signal } = stage;
  const writer = stage.protocol.streamWriter(stage.request, stage.makeId(), clock.now());
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
  });
  response.flushHeaders();
  if (step.kind === "hang") return untilAborted(signal);
  await write(stage, writer.start(usageOf(step.kind === "reply" ? step.usage : undefined)));
  if (step.kind === "neverEnd") return repeat(step, stage, (chunk) => writer.text(chunk));
  for (const [index, chunk] of chunksOf(step.text).entries()) {
    if (index > 0) await pause(step, stage);
    await write(stage, writer.text(chunk));
  }
  switch (step.kind) {
    case "stall":
      return untilAborted(signal);
    case "cut":
      return cut(stage);
    case "endEarly":
      response.end();
      return "endedEarly";
    case "errorChunk":
      response.end(writer.error(step.message, step.reason));
      return "errorChunk";
    case "reply":
      return finishStream(step, stage, writer);
  }
}

async function finishStream(step: ReplyStep, stage: Stage, writer: StreamWriter): Promise<Played> {
  const calls = callsOf(step, stage);
  for (const [index, call] of calls.entries()) {
    if (index > 0 || step.text !== undefined) await pause(step, stage);
    await write(stage, writer.toolCall(call));
  }
  stage.response.end(writer.finish(finishOf(step), usageOf(step.usage)));
  return "completed";
}

async function playWhole(step: BodyStep, stage: Stage): Promise<Played> {
  const { response, protocol, request, clock, signal } = stage;
  response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  if (step.kind === "hang") return untilAborted(signal);
  if (step.kind === "neverEnd") return repeat(step, stage, () => " ");
  if (step.kind === "errorChunk") {
    response.end(JSON.stringify(protocol.error(500, step.message)));
    return "errorChunk";
  }
  const isReply = step.kind === "reply";
  const reply = {
    text: chunksOf(step.text).join(""),
    toolCalls: isReply ? callsOf(step, stage) : [],
    finish: isReply ? finishOf(step) : null,
    usage: isReply ? usageOf(step.usage) : null,
  };
  const text = JSON.stringify(protocol.whole(request, reply, stage.makeId(), clock.now()));
  if (step.kind === "stall" || step.kind === "cut") {
    await write(stage, text.slice(0, Math.floor(text.length / 2)));
    return step.kind === "stall" ? untilAborted(signal) : cut(stage);
  }
  response.end(text);
  return isReply ? "completed" : "endedEarly";
}

async function repeat(
  step: Extract<Step, { kind: "neverEnd" }>,
  stage: Stage,
  wire: (chunk: string) => string,
): Promise<never> {
  const chunks = chunksOf(step.text);
  for (let at = 0; ; at++) {
    await write(stage, wire(chunks[at % Math.max(chunks.length, 1)] ?? " "));
    await stage.clock.sleep(step.everyMs, stage.signal);
  }
}

/** Lets the bytes written so far reach the client, since a reset may throw them away on its side. */
async function cut(stage: Stage): Promise<"cut"> {
  await stage.clock.sleep(CUT_AFTER_MS, stage.signal);
  stage.breaking("cut");
  stage.response.socket?.resetAndDestroy();
  return "cut";
}

const CUT_AFTER_MS = 50;

async function pause(step: Step, stage: Stage): Promise<void> {
  if (step.betweenChunksMs !== undefined) await stage.clock.sleep(step.betweenChunksMs, stage.signal);
}

async function write(stage: Stage, text: string): Promise<void> {
  stage.signal.throwIfAborted();
  if (!stage.response.write(text)) await once(stage.response, "drain", { signal: stage.signal });
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function callsOf(step: ReplyStep, { makeId, protocol, request }: Stage): ToolCall[] {
  return (step.toolCalls ?? []).map(({ id, name, arguments: args }) => ({
    id: id ?? `${protocol.callPrefix}${makeId()}`,
    name,
    arguments: typeof args === "string" ? args : filledIn(JSON.stringify(args), request),
  }));
}

/** `$result.KEY` stands for that key of the newest tool result: what the CLI alone knows, such as an id that it gave. */
function filledIn(args: string, { rows }: NeutralRequest): string {
  const text = rows.findLast(({ role }) => role === "tool")?.text ?? "";
  return args.replaceAll(/\$result\.(\w+)/g, (whole, key: string) => {
    const value = new RegExp(`"${key}":\\s*"([^"\\\\]*)"`).exec(text)?.[1];
    return value ?? whole;
  });
}

function finishOf(step: ReplyStep) {
  return step.finish ?? ((step.toolCalls ?? []).length > 0 ? "toolCalls" : "stop");
}

function usageOf(usage: UsageInput | undefined): Usage | null {
  if (usage === "absent") return null;
  if (usage === "zero") return NO_TOKENS;
  if (usage === undefined) return DEFAULT_USAGE;
  const {
    inputTokens,
    outputTokens,
    cachedInputTokens = 0,
    cacheWriteTokens = 0,
    reasoningTokens = 0,
  } = usage;
  return { inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens, reasoningTokens };
}
