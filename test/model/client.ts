// A small Chat Completions client for the tests of the loopback model: sends one request over a real socket
// and gathers what came, up to a break. Not a client for anything else.
import { onTestFinished } from "vitest";
import { type ModelServer, type ModelServerOptions, startModelServer } from "../support/model/server.ts";

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly raw: string;
  readonly text: string;
  readonly calls: { id: string; name: string; arguments: string }[];
  readonly finish: string | null;
  readonly usage: Record<string, unknown> | null;
  readonly isDone: boolean;
  /** The connection broke before the body ended. */
  readonly isBroken: boolean;
}

export interface Ask {
  readonly messages?: unknown[];
  readonly user?: string;
  readonly system?: string;
  readonly tools?: boolean;
  readonly stream?: boolean;
  readonly key?: string;
  readonly signal?: AbortSignal;
  readonly onChunk?: (raw: string) => void;
}

export async function startForTest(options: ModelServerOptions = {}): Promise<ModelServer> {
  const server = await startModelServer(options);
  onTestFinished(() => server.close());
  return server;
}

export const user = (content: unknown) => ({ role: "user", content });
export const assistant = (content: string | null, tool_calls?: unknown[]) => ({
  role: "assistant",
  content,
  ...(tool_calls === undefined ? {} : { tool_calls }),
});
export const call = (id: string) => ({ id, type: "function", function: { name: "bash", arguments: "{}" } });
export const result = (tool_call_id: string, content: string) => ({ role: "tool", tool_call_id, content });

export function bodyOf({
  messages,
  user: text = "",
  system = "You help.",
  tools = true,
  stream = true,
}: Ask) {
  return {
    model: "m1",
    messages: [{ role: "system", content: system }, ...(messages ?? [user(text)])],
    ...(tools ? { tools: [{ type: "function", function: { name: "bash", parameters: {} } }] } : {}),
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  };
}

/** Rejects only when no header came. */
export async function ask(server: ModelServer, options: Ask): Promise<Reply> {
  const response = await fetch(`${server.url}/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }),
    },
    body: JSON.stringify(bodyOf(options)),
    signal: options.signal ?? null,
  });
  const decoder = new TextDecoder();
  let raw = "";
  let isBroken = false;
  try {
    for await (const piece of response.body ?? []) {
      raw += decoder.decode(piece, { stream: true });
      options.onChunk?.(raw);
    }
  } catch {
    isBroken = true;
  }
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  return {
    status: response.status,
    headers: response.headers,
    raw,
    isBroken,
    ...(isStream ? readStream(raw) : readWhole(raw)),
  };
}

type Read = Pick<Reply, "text" | "calls" | "finish" | "usage" | "isDone">;

interface Piece {
  usage?: Record<string, unknown>;
  choices?: { delta?: Delta; message?: Delta; finish_reason?: string | null }[];
}
interface Delta {
  content?: string | null;
  tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

function readStream(raw: string): Read {
  const lines = raw.split("\n\n").filter((each) => each.startsWith("data: "));
  const pieces = lines.map((each) => each.slice(6)).filter((each) => each !== "[DONE]");
  return { ...gather(pieces.map((each) => JSON.parse(each))), isDone: lines.at(-1) === "data: [DONE]" };
}

function readWhole(raw: string): Read {
  try {
    return { ...gather([JSON.parse(raw)]), isDone: true };
  } catch {
    return { ...gather([]), isDone: false };
  }
}

function gather(pieces: Piece[]): Omit<Read, "isDone"> {
  const calls: Reply["calls"] = [];
  let text = "";
  let finish: string | null = null;
  let usage: Reply["usage"] = null;
  for (const piece of pieces) {
    usage = piece.usage ?? usage;
    const choice = piece.choices?.[0];
    const delta = choice?.delta ?? choice?.message;
    text += delta?.content ?? "";
    finish = choice?.finish_reason ?? finish;
    for (const [at, part] of (delta?.tool_calls ?? []).entries()) {
      const index = part.index ?? at;
      const found = calls[index] ?? { id: "", name: "", arguments: "" };
      found.id += part.id ?? "";
      found.name += part.function?.name ?? "";
      found.arguments += part.function?.arguments ?? "";
      calls[index] = found;
    }
  }
  return { text, calls, finish, usage };
}
