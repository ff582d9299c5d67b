/** A relay between a client and a model that the test plays, over a real Unix socket and real connections. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { realClock } from "../../../controller/clock.ts";
import type { CallRecord } from "../../../controller/relay/call-record.ts";
import type { RelayLimits } from "../../../controller/relay/limits.ts";
import {
  type CallerStanding,
  openRelay,
  type Relay,
  type RelayDoor,
  type ServedDoor,
} from "../../../controller/relay/relay.ts";
import type { RequestDigest } from "../../../controller/relay/request-digest.ts";
import { everyProtocol, type RelayOptions } from "../../../controller/relay/routes.ts";
import type { Budgets } from "../../../controller/store/budgets.ts";
import { closeServer, listenOn } from "../../../controller/unix-server.ts";
import type { ModelProtocol } from "../../../protocol/model-protocol.ts";
import type { ModelCaller } from "../../../protocol/model-token.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { within } from "../../support/until.ts";

export const KEY = "sk-the-real-key";
/** Each protocol has a member with a token of its own; a request takes the one that fits its path. */
export const TOKENS: Readonly<Record<ModelProtocol, string>> = {
  messages: "token-of-messages",
  responses: "token-of-responses",
  "chat-completions": "token-of-chat",
};
const PROTOCOLS = Object.keys(TOKENS) as ModelProtocol[];

export interface Seen {
  method: string;
  url: string;
  raw: string[];
  headers: IncomingMessage["headers"];
  body: Buffer;
}

export interface Upstream {
  url: string;
  server: Server;
  seen: Seen[];
}

/** A model on a port of its own; keeps what came, answers as the test says. */
export async function upstream(
  answer: (call: IncomingMessage, reply: ServerResponse) => void,
): Promise<Upstream> {
  const seen: Seen[] = [];
  const server = createServer((call, reply) => {
    const chunks: Buffer[] = [];
    call.on("data", (chunk: Buffer) => chunks.push(chunk));
    call.on("end", () => {
      const { method = "", url = "", rawHeaders: raw, headers } = call;
      seen.push({ method, url, raw, headers, body: Buffer.concat(chunks) });
    });
    call.on("error", () => undefined);
    answer(call, reply);
  });
  return { url: `${await listening(server)}/base`, server, seen };
}

export async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => closeServer(server));
  const { port } = server.address() as { port: number };
  return `http://127.0.0.1:${port}`;
}

export interface RelayRig {
  socketPath: string;
  relay: Relay;
  door: ServedDoor;
  /** Records in the order of the calls' ends, with the digest of each request. */
  records: Array<{ call: CallRecord; digest: RequestDigest | null }>;
  warnings: string[];
  /** Members that may ask; a test takes one away. */
  mayCall: Set<string>;
  standing: Partial<CallerStanding>;
}

export interface RelayRigOptions extends Partial<RelayOptions> {
  baseUrl?: string;
  key?: string | null;
  limits?: Partial<RelayLimits>;
  clock?: typeof realClock;
  budgets?: Partial<Pick<Budgets, "of" | "reserve" | "settle">>;
}

export async function relayRig(options: RelayRigOptions): Promise<RelayRig> {
  const { baseUrl = "http://127.0.0.1:9/v1", key = KEY, clock = realClock, budgets = {}, ...given } = options;
  const socketPath = join(temporaryDirectory(), "model.sock");
  const records: RelayRig["records"] = [];
  const warnings: string[] = [];
  const mayCall = new Set<string>(PROTOCOLS);
  const standing: Partial<CallerStanding> = {};
  const relay = openRelay(
    { routes: everyProtocol({ baseUrl, key }), ...given },
    {
      clock,
      variables: {},
      calls: () => ({
        record: (call) => ({ ...call, prefix: null }),
        recordAll: (calls) => void records.push(...calls),
        budgets: { of: () => null, reserve: () => true, settle: () => undefined, ...budgets },
      }),
      onWarning: (what, detail) => warnings.push(`${what}: ${detail}`),
    },
  );
  const server = await listenOn(socketPath, 0o600, { maxHeaderSize: relay.headerBytes });
  const callerOf = (token: string | null): ModelCaller | null => {
    const member = PROTOCOLS.find((protocol) => TOKENS[protocol] === token);
    return member !== undefined && mayCall.has(member) ? { member, epoch: 1, processGeneration: 7 } : null;
  };
  const doorOf: RelayDoor = {
    sandbox: "box",
    callerOf,
    mayCall: ({ member }) => mayCall.has(member),
    standing: (member) => ({
      protocol: member as ModelProtocol,
      route: undefined,
      turn: "turn-1",
      nativeId: "ses_1",
      ...standing,
    }),
  };
  const door = relay.serve(server, doorOf);
  onTestFinished(async () => {
    door.cut();
    await closeServer(server);
    await relay.settled();
    relay.close();
  });
  return { socketPath, relay, door, records, warnings, mayCall, standing };
}

export interface CallOptions {
  method?: string;
  path?: string;
  /** Without a header of a key the token that fits the path is shown. */
  headers?: Record<string, string | string[]>;
  body?: Buffer | string;
}

export function tokenFor(path: string): string {
  if (path.startsWith("/v1/messages")) return TOKENS.messages;
  return path.startsWith("/v1/responses") ? TOKENS.responses : TOKENS["chat-completions"];
}

export function open(
  socketPath: string,
  { method = "POST", path = "/v1/chat/completions", headers = {}, body }: CallOptions = {},
) {
  const hasKey = ["authorization", "x-api-key", "api-key"].some((name) => name in headers);
  const shown = hasKey ? headers : { authorization: `Bearer ${tokenFor(path)}`, ...headers };
  const call = request({ socketPath, method, path, headers: shown, agent: false });
  onTestFinished(() => void call.destroy());
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    call.once("response", resolve);
    call.on("error", reject);
  });
  if (body !== undefined) call.end(body);
  const limited = within("the answer", answer);
  // Not every test waits for it.
  limited.catch(() => undefined);
  return { call, answer: limited };
}

export async function send(socketPath: string, options: CallOptions = {}) {
  const { call, answer } = open(socketPath, options);
  if (options.body === undefined) call.end();
  const response = await answer;
  return { response, status: response.statusCode, body: await textOf(response) };
}

/** That a socket is closed, however it came to it. */
export function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

/** Speaks HTTP by hand; resolves with all that came until the other side closed. */
export async function byHand(socketPath: string, text: string): Promise<string> {
  const socket: Socket = connect(socketPath);
  onTestFinished(() => void socket.destroy());
  socket.write(text);
  return within(`the answer to ${JSON.stringify(text.slice(0, 100))}`, textOf(socket), 3000);
}
