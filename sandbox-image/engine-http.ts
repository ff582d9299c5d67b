// The container engine's HTTP interface over its Unix socket, as far as building an image and asking for life needs
// it. Knows bytes, statuses and time limits; knows nothing about our images, starts no engine, speaks no TCP.

import { request } from "node:http";
import type { Readable } from "node:stream";

/** Where an engine is looked for when nothing else is said. */
export const DEFAULT_ENGINE_SOCKET = "/var/run/docker.sock";

const PING_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** More than any answer that is read whole: inspect, list and build output are some KiB. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;

export interface EngineRequest {
  socketPath: string;
  method: "GET" | "POST" | "DELETE" | "PUT";
  path: string;
  query?: Record<string, string>;
  /** JSON value, or bytes to send as a tar stream. */
  json?: unknown;
  tar?: Readable;
  headers?: Record<string, string>;
  /** Default 30 s. Ends the whole exchange, not only the silence in it. */
  timeoutMs?: number;
}

export interface EngineAnswer {
  status: number;
  body: Buffer;
}

/** An answer of the engine that isn't a success; `status` 0 means that no answer came. */
export class EngineError extends Error {
  readonly status: number;
  constructor(message: string, status: number, options?: ErrorOptions) {
    super(message, options);
    this.name = "EngineError";
    this.status = status;
  }
}

/** The path of a `unix://` address; undefined for any other scheme. */
export function socketOfDockerHost(address: string): string | undefined {
  return address.startsWith("unix://") ? address.slice("unix://".length) : undefined;
}

/** One exchange, read whole. Rejects with EngineError when nothing answers in time; any status is an answer. */
export function engineRequest(options: EngineRequest): Promise<EngineAnswer> {
  const timeoutMs = options.timeoutMs ?? REQUEST_TIMEOUT_MS;
  const query = options.query === undefined ? "" : `?${new URLSearchParams(options.query).toString()}`;
  const payload = options.json === undefined ? undefined : Buffer.from(JSON.stringify(options.json));
  const headers: Record<string, string> = { Host: "engine", ...options.headers };
  if (payload !== undefined) {
    headers["Content-Type"] = "application/json";
    headers["Content-Length"] = String(payload.length);
  } else if (options.tar !== undefined) {
    headers["Content-Type"] = "application/x-tar";
    headers["Transfer-Encoding"] = "chunked";
  }
  const { promise, resolve, reject } = Promise.withResolvers<EngineAnswer>();
  const fail = (cause: Error): void => {
    options.tar?.destroy();
    reject(
      cause instanceof EngineError
        ? cause
        : new EngineError(`engine: ${options.method} ${options.path}: ${cause.message}`, 0, { cause }),
    );
  };
  const exchange = request(
    {
      socketPath: options.socketPath,
      method: options.method,
      path: options.path + query,
      headers,
      agent: false,
      signal: AbortSignal.timeout(timeoutMs),
    },
    (answer) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      answer.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_BODY_BYTES)
          answer.destroy(new EngineError("engine: answer too long", answer.statusCode ?? 0));
        else chunks.push(chunk);
      });
      answer.on("error", fail);
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(chunks) }));
    },
  );
  exchange.on("error", fail);
  if (options.tar === undefined) {
    exchange.end(payload);
  } else {
    options.tar.on("error", (cause) => exchange.destroy(cause));
    options.tar.pipe(exchange);
  }
  return promise;
}

/** Whether an engine answers there within the limit (2 s by default); never rejects. */
export async function pingEngine(socketPath: string, timeoutMs: number = PING_TIMEOUT_MS): Promise<boolean> {
  try {
    const answer = await engineRequest({ socketPath, method: "GET", path: "/_ping", timeoutMs });
    return answer.status === 200;
  } catch {
    return false;
  }
}

/** The JSON of a successful answer, or undefined for 404. Rejects with EngineError for any other status. */
export async function engineJson<T>(options: EngineRequest): Promise<T | undefined> {
  const answer = await engineRequest(options);
  if (answer.status === 404) return undefined;
  if (answer.status < 200 || answer.status > 299) {
    throw new EngineError(`engine: ${options.method} ${options.path}: ${messageOf(answer)}`, answer.status);
  }
  return (answer.body.length === 0 ? undefined : JSON.parse(answer.body.toString("utf8"))) as T | undefined;
}

/**
 * What a build or an import says, line by line; the stream's own error line becomes an EngineError, since the status
 * is 200 whatever happens later.
 */
export async function engineProgress(options: EngineRequest): Promise<string[]> {
  const answer = await engineRequest(options);
  if (answer.status !== 200) {
    throw new EngineError(`engine: ${options.method} ${options.path}: ${messageOf(answer)}`, answer.status);
  }
  const lines: string[] = [];
  for (const line of answer.body.toString("utf8").split("\n")) {
    if (line.trim() === "") continue;
    const event = JSON.parse(line) as { stream?: string; status?: string; error?: string };
    if (event.error !== undefined)
      throw new EngineError(`engine: ${event.error}\n${lines.slice(-20).join("\n")}`, 200);
    const text = (event.stream ?? event.status ?? "").trimEnd();
    if (text !== "") lines.push(text);
  }
  return lines;
}

function messageOf(answer: EngineAnswer): string {
  const text = answer.body.toString("utf8").trim();
  try {
    const parsed = JSON.parse(text) as { message?: string };
    if (typeof parsed.message === "string") return parsed.message;
  } catch {
    // Not JSON: the text itself is the message.
  }
  return `status ${answer.status} ${text.slice(0, 400)}`;
}
