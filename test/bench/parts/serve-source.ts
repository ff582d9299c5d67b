// A stand-in for `opencode serve`, as a program of its own: prints the ready line, answers what the bridge asks, and
// streams as many text deltas as the prompt says (`Directive` as JSON). The bare pipe reads from the same program.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  CHUNK_BYTES,
  type Directive,
  deltaEvent,
  type NativeIds,
  nativeId,
  nowNs,
  record,
  SESSION,
  wire,
} from "./record.ts";

export const SOURCE_VERSION = "stand-in";

let subscriber: ServerResponse | null = null;
let directory = "/";
let turns = 0;
let events = 0;

function tell(type: string, properties: unknown): void {
  events += 1;
  subscriber?.write(wire(type, nativeId("evt", events), properties));
}

async function stream(own: string, directive: Directive): Promise<void> {
  turns += 1;
  const ids: NativeIds = { message: nativeId("msg", turns), part: nativeId("prt", turns) };
  const created = Date.now();
  const user = { id: own, sessionID: SESSION, role: "user", time: { created } };
  const answer = { id: ids.message, sessionID: SESSION, role: "assistant", parentID: own, time: { created } };
  const part = { id: ids.part, messageID: ids.message, sessionID: SESSION, type: "text" };
  const rendered = directive.perSecond === 0 ? render(ids, directive.events) : null;
  const message = (info: unknown) => tell("message.updated", { sessionID: SESSION, info });
  message(user);
  tell("session.status", { sessionID: SESSION, status: { type: "busy" } });
  message(answer);
  tell("message.part.updated", { sessionID: SESSION, part: { ...part, text: "" } });
  const text = rendered === null ? await pace(ids, directive) : await pour(rendered, ids);
  const end = Date.now();
  tell("message.part.updated", {
    sessionID: SESSION,
    part: { ...part, text, time: { start: created, end } },
  });
  message({ ...answer, finish: "stop", time: { created, completed: end } });
  tell("session.status", { sessionID: SESSION, status: { type: "idle" } });
  tell("session.idle", { sessionID: SESSION });
}

function render(ids: NativeIds, count: number): { bytes: Buffer; texts: string[] } {
  const texts = Array.from({ length: count }, (_, number) => record(number, 0));
  return { bytes: Buffer.from(texts.map((text, at) => deltaEvent(ids, at, text)).join("")), texts };
}

/** All that was rendered, as fast as it is taken; the first record says when it began. */
async function pour({ bytes, texts }: { bytes: Buffer; texts: string[] }, ids: NativeIds): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, 20)); // what went before is read by now
  const first = record(0, nowNs());
  bytes.write(deltaEvent(ids, 0, first));
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    const isTaken = subscriber?.write(bytes.subarray(at, at + CHUNK_BYTES)) ?? true;
    if (!isTaken) await new Promise<void>((resolve) => subscriber?.once("drain", resolve));
  }
  return [first, ...texts.slice(1)].join("");
}

async function pace(ids: NativeIds, { events: count, perSecond }: Directive): Promise<string> {
  const startMs = performance.now();
  let text = "";
  for (let number = 0; number < count; number += 1) {
    const waitMs = startMs + (number * 1000) / perSecond - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const part = record(number, nowNs());
    subscriber?.write(deltaEvent(ids, number, part));
    text += part;
  }
  return text;
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://127.0.0.1");
  const call = `${request.method} ${url.pathname}`;
  const session = { id: SESSION, directory };
  if (call === "GET /event") {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    subscriber = response;
    return tell("server.connected", {});
  }
  const body = await bodyOf(request);
  switch (call) {
    case "GET /global/health":
      return json(response, { healthy: true, version: SOURCE_VERSION });
    case "POST /session":
      directory = url.searchParams.get("directory") ?? directory;
      return json(response, { ...session, directory });
    case `GET /session/${SESSION}`:
      return json(response, session);
    case "GET /session/status":
      return json(response, {});
    case "GET /permission":
    case "GET /question":
      return json(response, []);
    case "POST /tui/publish": {
      const { type, properties } = JSON.parse(body) as { type: string; properties: unknown };
      tell(type, properties);
      return json(response, true);
    }
    case `POST /session/${SESSION}/prompt_async`: {
      const { messageID, parts } = JSON.parse(body) as { messageID: string; parts: Array<{ text: string }> };
      response.writeHead(204).end();
      return stream(messageID, JSON.parse(parts[0]?.text ?? "{}") as Directive);
    }
    case `POST /session/${SESSION}/abort`:
      return json(response, true);
    default:
      response.writeHead(404, { "content-type": "application/json" }).end(`{"error":"${call}"}`);
  }
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8") as AsyncIterable<string>) text += chunk;
  return text;
}

if (import.meta.main) {
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      process.exit(1);
    });
  });
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo;
    process.stdout.write(`opencode server listening on http://127.0.0.1:${port}\n`);
  });
}
