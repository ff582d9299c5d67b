/**
 * The container engine's API over its Unix socket, as far as sandboxes need it. Plain `node:http`: a client library
 * brings 65 packages for what is a dozen calls. Spawning the command-line client costs 13 to 20 ms and a core each.
 */
import { Agent, type IncomingMessage, request } from "node:http";
import type * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";

/** API 1.41 is what the oldest engine we support (20.10) speaks. */
const VERSION = "/v1.41";
const ANSWER_BYTES = 64 * 1024 * 1024;
/** The kernel's own words for ENOSPC and EDQUOT, which the engine passes on. */
const NO_SPACE = /no space left on device|disk quota exceeded/i;

export interface EngineAnswer {
  status: number;
  body: Buffer;
}

interface CallOptions {
  body?: unknown;
  /** Default 30 000. */
  limitMs?: number;
  /** Of the answer; default 64 MiB. Beyond: ENGINE_MISSING, as for a broken one. */
  answerBytes?: number;
}

export interface EngineApi {
  /** False when nothing answers within two seconds. */
  ping(): Promise<boolean>;
  /** Throws ENGINE_MISSING when nothing answers. Statuses are the caller's to judge. */
  call(method: "GET" | "POST" | "DELETE", path: string, options?: CallOptions): Promise<EngineAnswer>;
  close(): void;
}

/** Where the engine listens: DOCKER_HOST when it names a Unix socket, else the usual place. */
export function engineSocket(dockerHost: string | undefined): string {
  const match = dockerHost?.match(/^unix:\/\/(\/.+)$/);
  return match?.[1] ?? "/var/run/docker.sock";
}

export function openEngine(socketPath: string): EngineApi {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });

  function exchange(method: string, path: string, options: CallOptions): Promise<EngineAnswer> {
    const { body, limitMs = 30_000, answerBytes = ANSWER_BYTES } = options;
    return new Promise((resolve, reject) => {
      const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
      const call = request({
        socketPath,
        method,
        path,
        agent,
        headers: {
          host: "engine",
          ...(payload === undefined
            ? {}
            : { "content-type": "application/json", "content-length": payload.length }),
        },
      });
      const timer = setTimeout(() => call.destroy(new Error(`no answer within ${limitMs} ms`)), limitMs);
      const fail = (cause: Error) => {
        clearTimeout(timer);
        reject(
          new HoldfastError("ENGINE_MISSING", `${method} ${path.split("?")[0]}: ${cause.message}`, { cause }),
        );
      };
      call.once("error", fail);
      call.once("response", (response) => {
        readBody(response, answerBytes).then((bytes) => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, body: bytes });
        }, fail);
      });
      call.end(payload);
    });
  }

  return {
    async ping() {
      try {
        return (await exchange("GET", "/_ping", { limitMs: 2000 })).status === 200;
      } catch (error) {
        if (error instanceof HoldfastError && error.code === "ENGINE_MISSING") return false;
        throw error;
      }
    },
    call: (method, path, options = {}) => exchange(method, VERSION + path, options),
    close: () => agent.destroy(),
  };
}

async function readBody(response: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limitBytes) throw new Error(`an answer exceeds ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The answer's JSON, or ENGINE_ERROR: with the engine's own message when it gave one. */
export function engineJson(what: string, answer: EngineAnswer): unknown {
  expectOk(what, answer);
  try {
    return JSON.parse(answer.body.toString("utf8")) as unknown;
  } catch (cause) {
    throw new HoldfastError("ENGINE_ERROR", `${what}: the engine's answer is no JSON`, { cause });
  }
}

/** The answer as the schema takes it, or ENGINE_ERROR. */
export function engineValue<S extends z.ZodMiniType>(
  what: string,
  answer: EngineAnswer,
  schema: S,
): z.infer<S> {
  const parsed = schema.safeParse(engineJson(what, answer));
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues[0]?.path.join(".") ?? "";
  throw new HoldfastError("ENGINE_ERROR", `${what}: the engine answers unexpectedly (${where})`);
}

export function expectOk(what: string, answer: EngineAnswer): void {
  if (answer.status < 400) return;
  const message = `${what}: ${answer.status} ${engineMessage(answer.body)}`;
  throw new HoldfastError(NO_SPACE.test(message) ? "DISK_FULL" : "ENGINE_ERROR", message);
}

function engineMessage(body: Buffer): string {
  const text = body.toString("utf8").slice(0, 500);
  try {
    const value = JSON.parse(text) as { message?: unknown } | null;
    return typeof value?.message === "string" ? value.message : text;
  } catch {
    return text;
  }
}
