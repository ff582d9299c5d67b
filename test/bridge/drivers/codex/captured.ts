// Codex's messages as they were recorded (test/captures/codex; made with 0.171.0), and the turns among them.
import { readdirSync, readFileSync } from "node:fs";
import {
  type NativeEvent,
  type NativeRequest,
  readNative,
  type TokenUsage,
} from "../../../../bridge/drivers/codex/native-message.ts";

const folder = new URL("../../../captures/codex/", import.meta.url);

interface Row {
  ch: "stdin" | "stdout";
  d: Record<string, unknown>;
}

export const captureNames = (): string[] => readdirSync(folder).map((name) => name.replace(/\.ndjson$/, ""));

export function rowsOf(name: string): Row[] {
  return readFileSync(new URL(`${name}.ndjson`, folder), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);
}

export interface CapturedTurn {
  root: string;
  /** Our id of the prompt. */
  message: string;
  /** As codex named it. */
  turn: string;
  /** Everything behind the answer that named it, to the end of the recording. */
  events: NativeEvent[];
  requests: NativeRequest[];
  /** The thread's figures before it. */
  usageBefore: TokenUsage | null;
}

/** The turn of the prompt with this text. */
export function turnOf(name: string, text: string): CapturedTurn {
  const rows = rowsOf(name);
  const at = rows.findIndex(({ ch, d }) => {
    const { input } = (d.params ?? {}) as { input?: Array<{ text: string }> };
    return ch === "stdin" && d.method === "turn/start" && input?.[0]?.text === text;
  });
  const asked = rows[at]?.d as
    | { id: number; params: { threadId: string; clientUserMessageId: string } }
    | undefined;
  if (asked === undefined) throw new Error(`${name} has no prompt ${text}`);
  const behind = rows.slice(at).filter(({ ch }) => ch === "stdout");
  const answer = behind.findIndex(({ d }) => d.id === asked.id && d.method === undefined);
  const named = behind[answer]?.d as { result: { turn: { id: string } } } | undefined;
  if (named === undefined) throw new Error(`${name} does not name the turn of ${text}`);
  const messages = behind.slice(answer + 1).map(({ d }) => readNative(d));
  const earlier = rows.slice(0, at).flatMap(({ d }) => {
    const read = readNative(d);
    if (read?.kind !== "event" || read.event.method !== "thread/tokenUsage/updated") return [];
    return [read.event.params];
  });
  return {
    usageBefore: earlier.findLast(({ threadId }) => threadId === asked.params.threadId)?.tokenUsage ?? null,
    root: asked.params.threadId,
    message: asked.params.clientUserMessageId,
    turn: named.result.turn.id,
    events: messages.flatMap((each) => (each?.kind === "event" ? [each.event] : [])),
    requests: messages.flatMap((each) => (each?.kind === "request" ? [each.request] : [])),
  };
}
