// A small client for the tests of the loopback model: sends one request over a real socket, in the protocol asked
// for, and gathers what came, up to a break. Not a client for anything else.
import { onTestFinished } from "vitest";
import { type ModelServer, type ModelServerOptions, startModelServer } from "../support/model/server.ts";
import { CHAT, type Message, piecesOf, type Read, type Wire } from "./wires.ts";

export interface Reply extends Read {
  readonly status: number;
  readonly headers: Headers;
  readonly raw: string;
  /** The connection broke before the body ended. */
  readonly isBroken: boolean;
}

export interface Ask {
  /** Undefined: Chat Completions. */
  readonly wire?: Wire;
  readonly messages?: readonly Message[];
  readonly user?: string;
  readonly system?: string;
  readonly tools?: boolean;
  readonly stream?: boolean;
  readonly key?: string;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
  readonly onChunk?: (raw: string) => void;
}

export async function startForTest(options: ModelServerOptions = {}): Promise<ModelServer> {
  const server = await startModelServer(options);
  onTestFinished(() => server.close());
  return server;
}

export const user = (content: unknown): Message => ({ role: "user", content });
export const assistant = (content: string | null, tool_calls?: ReturnType<typeof call>[]): Message => ({
  role: "assistant",
  content,
  ...(tool_calls === undefined ? {} : { tool_calls }),
});
export const call = (id: string) => ({ id, type: "function", function: { name: "bash", arguments: "{}" } });
export const result = (tool_call_id: string, content: string): Message => ({
  role: "tool",
  tool_call_id,
  content,
});

export function bodyOf({
  wire = CHAT,
  messages,
  user: text = "",
  system = "You help.",
  tools = true,
  stream = true,
}: Ask): object {
  return wire.body({ system, messages: messages ?? [user(text)], tools, stream });
}

/** Rejects only when no header came. */
export async function ask(server: Pick<ModelServer, "url">, options: Ask): Promise<Reply> {
  const { wire = CHAT, key, headers, signal = null } = options;
  const response = await fetch(`${server.url}${wire.path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(key === undefined ? {} : wire.keyHeader(key)),
      ...headers,
    },
    body: JSON.stringify(bodyOf(options)),
    signal,
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
  const pieces = piecesOf(raw, isStream);
  const read = wire.read(pieces, isStream);
  return {
    status: response.status,
    headers: response.headers,
    raw,
    isBroken,
    ...read,
    isDone: isStream ? read.isDone : pieces.length > 0,
  };
}
