/**
 * Requests to a CLI's own server on loopback. Always direct, never through a proxy, each with a limit of its own. An
 * answer that is not JSON is never parsed as one: a stranger on the port may answer 200 with a page.
 */
import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";
import { HoldfastError } from "../../../protocol/errors.ts";

/** One answer body, in bytes. Beyond: OUTPUT_LIMIT. A long history is the largest. */
const ANSWER_BYTES = 256 * 1024 * 1024;

export interface Answer {
  status: number;
  /** The parsed body; null when there is none. */
  json: unknown;
}

export interface LoopbackServer {
  readonly port: number;
  /** Throws CLI_NOT_READY when there is no answer in time, or one that is not the API's. */
  ask(call: {
    method: "GET" | "POST";
    path: string;
    body?: unknown;
    limitMs: number;
    ownSocket?: boolean;
  }): Promise<Answer>;
  /** Opens a long-lived answer. The caller owns it and its silence. */
  open(path: string): ClientRequest;
  close(): void;
}

export function loopbackServer(
  port: number,
  userName: string,
  password: string,
  answerBytes: number = ANSWER_BYTES,
): LoopbackServer {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const authorization = `Basic ${Buffer.from(`${userName}:${password}`).toString("base64")}`;

  return {
    port,
    ask: ({ method, path, body, limitMs, ownSocket }) =>
      new Promise((resolve, reject) => {
        const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
        const call = request({
          host: "127.0.0.1",
          port,
          method,
          path,
          agent: ownSocket === true ? false : agent,
          headers: {
            authorization,
            accept: "application/json",
            ...(payload === undefined
              ? {}
              : { "content-type": "application/json", "content-length": payload.length }),
          },
        });
        const timer = setTimeout(
          () => call.destroy(new HoldfastError("CLI_NOT_READY", `no answer within ${limitMs} ms`)),
          limitMs,
        );
        const fail = (error: Error) => {
          clearTimeout(timer);
          reject(failure(`${method} ${withoutQuery(path)}`, error));
        };
        call.once("error", fail);
        call.once("response", (response) => {
          readAnswer(response, answerBytes).then((answer) => {
            clearTimeout(timer);
            resolve(answer);
          }, fail);
        });
        call.end(payload);
      }),
    open(path) {
      return request({
        host: "127.0.0.1",
        port,
        method: "GET",
        path,
        agent: false,
        headers: { authorization, accept: "text/event-stream" },
      });
    },
    close: () => agent.destroy(),
  };
}

async function readAnswer(response: IncomingMessage, limitBytes: number): Promise<Answer> {
  const status = response.statusCode ?? 0;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limitBytes) throw new HoldfastError("OUTPUT_LIMIT", `an answer exceeds ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  if (bytes === 0) return { status, json: null };
  if (!/\bjson\b/.test(response.headers["content-type"] ?? "")) {
    if (status >= 400) return { status, json: null };
    throw new HoldfastError("CLI_NOT_READY", `status ${status} with a body that is not JSON`);
  }
  return { status, json: JSON.parse(Buffer.concat(chunks).toString("utf8")) as unknown };
}

function failure(what: string, error: Error): HoldfastError {
  const code = error instanceof HoldfastError ? error.code : "CLI_NOT_READY";
  return new HoldfastError(code, `${what}: ${error.message}`, { cause: error });
}

function withoutQuery(path: string): string {
  return path.split("?")[0] ?? path;
}
