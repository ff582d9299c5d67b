// The loopback model: a scripted model server on 127.0.0.1 for tests, benches and the tour. Wires the socket
// to protocol, scripts, recall and records, and owns the life of every connection. Decides no reply itself.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { anthropicMessages, countTokens } from "./anthropic-messages.ts";
import { BodyFault, parseJson, readBody } from "./body.ts";
import { chatCompletions } from "./chat-completions.ts";
import { type Clock, realClock } from "./clock.ts";
import { CONTROL_PREFIX, control, send } from "./control.ts";
import { positionOf, purposeOf } from "./history.ts";
import type { NeutralRequest, WireProtocol } from "./neutral.ts";
import { play, sendStatus } from "./player.ts";
import { recall } from "./recall.ts";
import { type LiveRecord, type ModelRequest, Records } from "./records.ts";
import { responses } from "./responses.ts";
import { type Choice, type ScriptOptions, Scripts } from "./scripts.ts";
import type { StepInput } from "./steps.ts";

export interface ModelServerOptions {
  /** Undefined or 0: any free port. */
  readonly port?: number;
  /** Answer unscripted requests from the received history; undefined: with `OK.`. */
  readonly recall?: boolean;
  /** Requests that don't carry this key get 401; undefined: any or none will do. */
  readonly expectedKey?: string;
  /** Ids for `GET /v1/models`; undefined: `m1`. Any id is served. */
  readonly models?: readonly string[];
  readonly clock?: Clock;
  readonly makeId?: () => string;
}

export interface ModelServer {
  /** Base URL for the CLI: `http://127.0.0.1:PORT/v1`; Claude Code wants its origin alone. */
  readonly url: string;
  /** Plays the steps for turns whose last user text contains or fits `match`; one step a model call. */
  script(match: string | RegExp, steps: readonly StepInput[], options?: ScriptOptions): void;
  /** Plays the steps for the next turn that no script and no directive claims. */
  queue(steps: readonly StepInput[]): void;
  /** Plays the steps for all that nothing else claims, before recall. */
  setDefault(steps: readonly StepInput[]): void;
  requests(): ModelRequest[];
  /** Those of the main chains and of subagents (`agent` tells them apart): no title and no summary requests. */
  mainRequests(): ModelRequest[];
  droppedRequests(): number;
  /** Resolves with the first kept or coming request that the predicate accepts, as it then stands. */
  waitForRequest(predicate: (request: ModelRequest) => boolean, limitMs: number): Promise<ModelRequest>;
  /** Forgets scripts and records; open replies go on. */
  reset(): void;
  /** Ends every connection and every open reply. */
  close(): Promise<void>;
}

const PROTOCOLS: readonly WireProtocol[] = [chatCompletions, responses, anthropicMessages];

export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const records = new Records();
  const scripts = new Scripts();
  const closing = new AbortController();
  const parts: Parts = {
    options,
    records,
    scripts,
    closing: closing.signal,
    clock: options.clock ?? realClock,
  };
  const server = createServer((message, response) => {
    route(message, response, parts).catch(() => response.destroy());
  });
  server.listen(options.port ?? 0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    script: (match, steps, scriptOptions) => scripts.register(match, steps, scriptOptions),
    queue: (steps) => scripts.enqueue(steps),
    setDefault: (steps) => scripts.setDefault(steps),
    requests: () => records.list(),
    mainRequests: () => records.list().filter(({ purpose }) => purpose === "main"),
    droppedRequests: () => records.dropped,
    waitForRequest: (predicate, limitMs) => records.wait(predicate, limitMs),
    reset: () => {
      scripts.reset();
      records.reset();
    },
    close: async () => {
      closing.abort();
      records.close();
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Parts {
  readonly options: ModelServerOptions;
  readonly records: Records;
  readonly scripts: Scripts;
  readonly closing: AbortSignal;
  readonly clock: Clock;
}

async function route(message: IncomingMessage, response: ServerResponse, parts: Parts): Promise<void> {
  const path = (message.url ?? "/").split("?")[0] ?? "/";
  if (path.startsWith(CONTROL_PREFIX)) return control(message, response, parts);
  const protocol = PROTOCOLS.find((each) => each.path === path);
  if (protocol !== undefined && message.method === "POST") return answer(message, response, protocol, parts);
  if (path === "/v1/models" && message.method === "GET") return listModels(message, response, parts);
  if (path === COUNT_PATH && message.method === "POST") return count(message, response, parts);
  if (path === "/api/hello" && message.method === "HEAD") {
    response.end();
    return;
  }
  message.resume();
  send(response, 404, chatCompletions.error(404, `nothing at ${message.method} ${path}`));
}

function listModels(message: IncomingMessage, response: ServerResponse, { options }: Parts): void {
  const key = chatCompletions.presentedKey(message.headers);
  if (options.expectedKey !== undefined && key !== options.expectedKey) {
    send(response, 401, chatCompletions.error(401, "wrong or missing key"));
    return;
  }
  const ids = options.models ?? ["m1"];
  const data = ids.map((id) => ({ id, object: "model", created: 0, owned_by: "loopback" }));
  send(response, 200, { object: "list", data });
}

const COUNT_PATH = `${anthropicMessages.path}/count_tokens`;

async function count(message: IncomingMessage, response: ServerResponse, { options }: Parts): Promise<void> {
  const text = await readBody(message);
  const key = anthropicMessages.presentedKey(message.headers);
  if (options.expectedKey !== undefined && key !== options.expectedKey) {
    send(response, 401, anthropicMessages.error(401, "wrong or missing key"));
  } else send(response, 200, countTokens(text));
}

async function answer(
  message: IncomingMessage,
  response: ServerResponse,
  protocol: WireProtocol,
  parts: Parts,
): Promise<void> {
  const { options, records, closing, clock } = parts;
  const key = protocol.presentedKey(message.headers);
  const record = records.open(protocol.name, message.headers, key, clock.now());
  const gone = new AbortController();
  response.once("close", () => {
    gone.abort();
    if (record.ending !== "open") return;
    record.isClientGone = !closing.aborted;
    records.end(record, closing.aborted ? "closed" : "gone", clock.now());
  });
  const refuse = (status: number, fault: string) => {
    record.fault = fault;
    records.end(record, status === 401 ? "unauthorized" : "refused", clock.now());
    if (response.headersSent) {
      response.destroy();
      return;
    }
    response.setHeader("connection", "close");
    sendStatus({ response, protocol }, { status, body: protocol.error(status, fault) });
  };
  try {
    records.setBody(record, await readBody(message));
    if (options.expectedKey !== undefined && key !== options.expectedKey) {
      return refuse(401, "wrong or missing key");
    }
    const request = protocol.parse(parseJson(record.bodyText ?? ""));
    const chosen = choose(request, record, parts);
    records.changed();
    const stage = {
      response,
      protocol,
      request,
      clock,
      signal: AbortSignal.any([gone.signal, closing]),
      makeId: options.makeId ?? (() => randomUUID().replaceAll("-", "")),
      breaking: (ending: "cut" | "destroyed") => records.end(record, ending, clock.now()),
    };
    const ending = await play(chosen.step, stage, chosen.isFailure);
    if (ending === "completed" || ending === "endedEarly") chosen.delivered();
    records.end(record, ending, clock.now());
  } catch (error) {
    if (gone.signal.aborted || closing.aborted) return;
    if (error instanceof BodyFault) refuse(error.status, error.message);
    else if (error instanceof TypeError) refuse(400, error.message);
    else if (message.complete) refuse(500, `the loopback model failed: ${String(error)}`);
  }
}

type Chosen = Pick<Choice, "step" | "isFailure" | "delivered">;

/** Fills the record with what the request is and what answers it. */
function choose(request: NeutralRequest, record: LiveRecord, { options, scripts }: Parts): Chosen {
  const purpose = purposeOf(request);
  const position = positionOf(request);
  record.request = request;
  record.purpose = purpose;
  const choice = scripts.choose(position, purpose);
  if (choice !== null) {
    const { source, round, step, isFailure } = choice;
    record.answer = { source, round, step: step.kind, isFailure };
    return choice;
  }
  const isRecall = options.recall === true && (purpose === "main" || purpose === "plain");
  const source = isRecall ? "recall" : "builtIn";
  record.answer = { source, round: position.round, step: "reply", isFailure: false };
  const text = isRecall ? recall(position) : BUILT_IN[purpose];
  return { step: { kind: "reply", text }, isFailure: false, delivered: () => undefined };
}

const BUILT_IN = {
  main: "OK.",
  plain: "OK.",
  title: "Loopback chat",
  // Claude Code 2.1.332 asks twice when the tags are missing.
  summary: "<summary>A summary of the conversation so far.</summary>",
} as const;
