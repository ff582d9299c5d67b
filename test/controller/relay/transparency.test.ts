/**
 * Byte for byte: each exchange once with the model directly and once through the relay. What the model got and what the
 * client got must be the same, down to the order, spelling and repeats of headers and the pieces of a chunked body; only
 * the headers that belong to one connection, the host's name and the credentials may differ.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { until, within } from "../../support/until.ts";
import { KEY, relayRig, tokenFor } from "./rig.ts";

interface Exchange {
  what: string;
  /** Request line. */
  line: string;
  headers: string[];
  body: Buffer;
  /** What the model sends, piece by piece, each in a write of its own. */
  answer: Buffer[];
  /** Raw headers and body of the request end where the model has seen this many bytes of it after the head. */
  bodyBytes: number;
}

const chunk = (data: string | Buffer) =>
  Buffer.concat([
    Buffer.from(`${Buffer.byteLength(data).toString(16)}\r\n`),
    Buffer.from(data),
    Buffer.from("\r\n"),
  ]);
const last = (trailers = "") => Buffer.from(`0\r\n${trailers}\r\n`);
const head = (...lines: string[]) => Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1");

const MESSAGE = JSON.stringify({
  model: "m",
  unknown_field: [1, null, { x: "\u2028" }],
  messages: [
    { role: "user", content: " \r\n/slash @at größe 😀 " },
    { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: "c2ln" }] },
  ],
});
const SSE = [
  "event: message_start\ndata: {}\n\n",
  ": ping\r\n\r\n",
  "data: größer 😀\n\ndata: [DO",
  "NE]\n\n",
];

function exchange(
  what: string,
  line: string,
  body: string | Buffer,
  answer: Buffer[],
  headers: string[] = [],
): Exchange {
  const bytes = Buffer.from(body);
  return {
    what,
    line,
    headers: ["Content-Type: application/json", ...headers, `Content-Length: ${bytes.length}`],
    body: bytes,
    answer,
    bodyBytes: bytes.length,
  };
}

const CHUNKED_BODY = Buffer.concat([chunk('{"a":'), chunk("1"), chunk("}"), last()]);
const gzipped = gzipSync(SSE.join(""));
const EXCHANGES: Exchange[] = [
  exchange(
    "Messages, streamed",
    "POST /v1/messages?beta=true HTTP/1.1",
    MESSAGE,
    [
      head(
        "HTTP/1.1 200 OK",
        "Content-Type: text/event-stream",
        "Transfer-Encoding: chunked",
        "request-id: req_1",
      ),
      ...SSE.map(chunk),
      last(),
    ],
    [
      "anthropic-version: 2023-06-01",
      "anthropic-beta: one",
      "anthropic-beta: two",
      "X-Odd-CASE:  two  blanks ",
    ],
  ),
  exchange("count_tokens", "POST /v1/messages/count_tokens HTTP/1.1", MESSAGE, [
    Buffer.concat([
      head("HTTP/1.1 200 OK", "content-type: application/json", "content-length: 19"),
      Buffer.from('{"input_tokens":12}'),
    ]),
  ]),
  exchange(
    "Responses, compressed, in many pieces",
    "POST /v1/responses HTTP/1.1",
    '{"input":[]}',
    [
      head(
        "HTTP/1.1 200 OK",
        "content-encoding: gzip",
        "content-type: text/event-stream",
        "transfer-encoding: chunked",
      ),
      ...[0, 1, 2, 3, 4].map((at) => chunk(gzipped.subarray(at * 12, at === 4 ? undefined : at * 12 + 12))),
      last(),
    ],
    ["Accept-Encoding: gzip, br, zstd", "Session-Id: s"],
  ),
  exchange(
    "Chat Completions, with trailers and headers that come twice",
    "POST /v1/chat/completions HTTP/1.1",
    "{}",
    [
      head(
        "HTTP/1.1 200 Fine So Far",
        "Set-Cookie: a=1",
        "set-cookie: b=2",
        "Trailer: X-Sum",
        "X-Umlaut: \u00fc",
        "transfer-encoding: chunked",
      ),
      chunk("data: 1\n\n"),
      last("X-Sum: abc\r\n"),
    ],
  ),
  exchange("an error of the provider", "POST /v1/messages HTTP/1.1", "{}", [
    Buffer.concat([
      head(
        "HTTP/1.1 529 Overloaded",
        "retry-after: 7",
        "x-should-retry: true",
        "content-type: application/json",
        "content-length: 65",
      ),
      Buffer.from('{"type":"error","error":{"type":"overloaded_error","message":""}}'),
    ]),
  ]),
  {
    what: "a request in pieces, without a stated length",
    line: "POST /v1/chat/completions HTTP/1.1",
    headers: ["Transfer-Encoding: chunked"],
    body: CHUNKED_BODY,
    bodyBytes: CHUNKED_BODY.length,
    answer: [Buffer.concat([head("HTTP/1.1 200 OK", "content-length: 2"), Buffer.from("ok")])],
  },
  {
    what: "HEAD",
    line: "HEAD /v1/models HTTP/1.1",
    headers: ["Accept: */*"],
    body: Buffer.alloc(0),
    bodyBytes: 0,
    answer: [head("HTTP/1.1 200 OK", "content-length: 12345", "ETag: x")],
  },
  {
    what: "no content",
    line: "GET /v1/models/x%20y?z=%F0 HTTP/1.1",
    headers: [],
    body: Buffer.alloc(0),
    bodyBytes: 0,
    answer: [head("HTTP/1.1 204 No Content", "x-a: 1")],
  },
];

/** A model that knows no HTTP: it keeps the bytes and plays the answer. */
async function rawModel(play: Exchange): Promise<{ port: number; received: Buffer[] }> {
  const received: Buffer[] = [];
  const server = createServer((socket) => {
    const seen: Buffer[] = [];
    received.push(Buffer.alloc(0));
    const at = received.length - 1;
    socket.on("error", () => undefined);
    const whole = new Promise<void>((resolve) => {
      socket.on("data", (bytes) => {
        seen.push(bytes);
        received[at] = Buffer.concat(seen);
        const end = received[at]?.indexOf("\r\n\r\n") ?? -1;
        if (end >= 0 && (received[at]?.length ?? 0) >= end + 4 + play.bodyBytes) resolve();
      });
    });
    void whole.then(() => answer(socket, play.answer));
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, received };
}

async function answer(socket: Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) await new Promise<void>((resolve) => socket.write(piece, () => resolve()));
}

/** Sends the request, and resolves with all that came once it is as long as what the model sends, at least. */
async function ask(socket: Socket, request: Buffer, play: Exchange): Promise<Buffer> {
  onTestFinished(() => void socket.destroy());
  const seen: Buffer[] = [];
  socket.on("data", (bytes) => seen.push(bytes));
  socket.on("error", () => undefined);
  socket.write(request);
  const body = parts(Buffer.concat(play.answer)).body.slice(-5);
  await until(`the whole answer of ${play.what}`, () => {
    const bytes = Buffer.concat(seen);
    return bytes.includes("\r\n\r\n") && parts(bytes).body.endsWith(body);
  });
  return Buffer.concat(seen);
}

/** The start line, the headers without those that may differ, and the body's bytes with their framing. */
function parts(bytes: Buffer): { line: string; headers: string[]; body: string } {
  const end = bytes.indexOf("\r\n\r\n");
  const [line = "", ...headers] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const free = /^(host|connection|keep-alive|authorization|x-api-key|transfer-encoding):/i;
  return {
    line,
    headers: headers
      .filter((header) => !free.test(header))
      .map((header) => header.replace(/:\s*(.*?)\s*$/, ": $1")),
    body: bytes.subarray(end + 4).toString("latin1"),
  };
}

const framing = (bytes: Buffer) =>
  /\r\ntransfer-encoding: *(\S+)/i.exec(bytes.subarray(0, bytes.indexOf("\r\n\r\n")).toString("latin1"))?.[1];

test.each(EXCHANGES.map((each) => [each.what, each] as const))("%s", async (_, play) => {
  const model = await rawModel(play);
  const { socketPath } = await relayRig({ baseUrl: `http://127.0.0.1:${model.port}/v1` });
  const path = play.line.split(" ")[1] ?? "";
  const request = Buffer.concat([
    head(
      play.line,
      "Host: model.example",
      `Authorization: Bearer ${tokenFor(path)}`,
      "Accept-Language: *",
      ...play.headers,
    ),
    play.body,
  ]);
  const direct = await within("the direct answer", ask(connect(model.port, "127.0.0.1"), request, play));
  const relayed = await within("the relayed answer", ask(connect(socketPath), request, play));
  expect(parts(relayed)).toEqual(parts(direct));
  expect(framing(relayed)).toBe(framing(direct));

  const [first, second] = model.received;
  expect(parts(second ?? Buffer.alloc(0))).toEqual(parts(first ?? Buffer.alloc(0)));
  expect(framing(second ?? Buffer.alloc(0))).toBe(framing(first ?? Buffer.alloc(0)));
  const text = second?.toString("latin1") ?? "";
  expect(text).toContain(`\r\nHost: 127.0.0.1:${model.port}\r\n`);
  expect(text).toContain(KEY);
  expect(text).not.toContain(tokenFor(path));
});

test("an expected 100 is the provider's to give: until then no body goes out", async () => {
  const sockets: Socket[] = [];
  const seen: string[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.on("data", (bytes) => seen.push(bytes.toString()));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const { socketPath } = await relayRig({ baseUrl: `http://127.0.0.1:${port}/v1` });
  const client = connect(socketPath);
  onTestFinished(() => void client.destroy());
  const answered = buffer(client);
  const heard: string[] = [];
  client.on("data", (bytes) => heard.push(bytes.toString()));
  client.write(
    head(
      "POST /v1/chat/completions HTTP/1.1",
      "Host: x",
      `Authorization: Bearer ${tokenFor("/v1/chat")}`,
      "Expect: 100-continue",
      "Connection: close",
      "Content-Length: 2",
    ),
  );
  await until("the head", () => seen.join("").includes("\r\n\r\n"));
  expect(seen.join("")).toMatch(/\r\nexpect: 100-continue\r\n/i);
  expect(heard).toEqual([]);
  sockets[0]?.write("HTTP/1.1 100 Continue\r\n\r\n");
  await until("the provider's word", () => heard.join("").includes("100 Continue"));
  client.write("{}");
  await until("the body", () => seen.join("").endsWith("{}"));
  sockets[0]?.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  expect((await within("the answer", answered)).toString()).toMatch(
    /^HTTP\/1\.1 100 .*HTTP\/1\.1 200 OK.*ok$/s,
  );
});
