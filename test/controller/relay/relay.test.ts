import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { realClock } from "../../../controller/clock.ts";
import { openRelay } from "../../../controller/relay/relay.ts";
import { closeServer } from "../../../controller/unix-server.ts";
import { selfSigned } from "../../support/self-signed.ts";
import { until, within } from "../../support/until.ts";
import {
  byHand,
  closed,
  KEY,
  listening,
  open,
  relayRig,
  type Seen,
  send,
  TOKENS,
  tokenFor,
  upstream,
} from "./rig.ts";

const relay = async (...given: Parameters<typeof relayRig>) => (await relayRig(...given)).socketPath;

test("a body of any bytes arrives unchanged, at the provider's own path, with the answer's bytes back", async () => {
  const answerBytes = randomBytes(300_000);
  const model = await upstream(
    (call, reply) =>
      void call.on("end", () => reply.writeHead(201, { "x-request-id": "r-1" }).end(answerBytes)),
  );
  const socketPath = await relay({ baseUrl: model.url });
  const body = randomBytes(1_000_000);
  const { call, answer } = open(socketPath, {
    path: "/v1/messages?beta=1&x=%20",
    headers: { "content-length": `${body.length}` },
  });
  call.end(body);
  const response = await answer;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  expect(Buffer.concat(chunks).equals(answerBytes)).toBe(true);
  expect(response.statusCode).toBe(201);
  expect(response.headers["x-request-id"]).toBe("r-1");
  expect(model.seen).toHaveLength(1);
  expect(model.seen[0]?.body.equals(body)).toBe(true);
  expect(model.seen[0]).toMatchObject({ method: "POST", url: "/base/messages?beta=1&x=%20" });
  expect(model.seen[0]?.headers["content-length"]).toBe(`${body.length}`);
});

test("the real key takes the place of the token; the client's own credentials go nowhere", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const socketPath = await relay({ baseUrl: model.url });
  const headers = {
    authorization: `Bearer ${TOKENS["chat-completions"]}`,
    "x-api-key": TOKENS["chat-completions"],
    "x-mine": "kept",
    cookie: "a=b",
  };
  await send(socketPath, { headers, body: "{}" });
  expect(model.seen[0]?.headers).toMatchObject({
    authorization: `Bearer ${KEY}`,
    "x-mine": "kept",
    cookie: "a=b",
  });
  expect(JSON.stringify(model.seen[0]?.raw)).not.toContain("token-of");
  expect(model.seen[0]?.headers.host).toBe(new URL(model.url).host);
});

test("the key goes into the header of the request's protocol; headers of the protocol's own pass", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const socketPath = await relay({ baseUrl: model.url });
  const headers = (path: string) => ({
    authorization: `Bearer ${tokenFor(path)}`,
    "x-api-key": tokenFor(path),
    "api-key": tokenFor(path),
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "one,two",
  });
  const cases: Array<[string, { authorization?: string; "x-api-key"?: string }]> = [
    ["/v1/messages?beta=true", { "x-api-key": KEY }],
    ["/v1/messages/count_tokens?beta=true", { "x-api-key": KEY }],
    ["/v1/responses", { authorization: `Bearer ${KEY}` }],
    ["/v1/chat/completions", { authorization: `Bearer ${KEY}` }],
  ];
  for (const [path] of cases) await send(socketPath, { path, headers: headers(path), body: "{}" });
  for (const [at, [path, expected]] of cases.entries()) {
    const { url, raw, headers: got } = model.seen[at] as Seen;
    expect(url).toBe(path.replace("/v1/", "/base/"));
    const { authorization, "x-api-key": apiKey } = got;
    expect({ authorization, "x-api-key": apiKey }, path).toEqual({
      authorization: expected.authorization,
      "x-api-key": expected["x-api-key"],
    });
    expect(JSON.stringify(raw), path).not.toContain("token-of");
    expect(got).toMatchObject({ "anthropic-version": "2023-06-01", "anthropic-beta": "one,two" });
  }
});

test("what a CLI asks beside the API is answered here, without a body where none may be, and reaches no provider", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const socketPath = await relay({ baseUrl: model.url });
  const head = await send(socketPath, { method: "HEAD", path: "/api/hello" });
  expect([head.status, head.body]).toEqual([404, ""]);
  const get = await send(socketPath, { method: "GET", path: "/api/claude_cli/bootstrap" });
  expect(get.status).toBe(404);
  expect(JSON.parse(get.body)).toMatchObject({ type: "error", error: { type: "not_found_error" } });
  expect(model.seen).toEqual([]);
});

test("a model without a key gets no credentials at all", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const socketPath = await relay({ baseUrl: model.url, key: null });
  await send(socketPath, { body: "{}" });
  expect(model.seen[0]?.headers).not.toHaveProperty("authorization");
});

test("headers of one connection stay on it, in both directions", async () => {
  const model = await upstream((_, reply) =>
    reply
      .writeHead(200, {
        connection: "close, X-Hop",
        "x-hop": "1",
        "keep-alive": "timeout=9",
        "proxy-authenticate": "p",
        "x-end": "1",
      })
      .end("ok"),
  );
  const socketPath = await relay({ baseUrl: model.url });
  const headers = {
    connection: "X-Mine, keep-alive",
    "x-mine": "1",
    te: "trailers",
    "proxy-authorization": "p",
    "x-end": "1",
  };
  const { response } = await send(socketPath, { headers, body: "{}" });
  for (const name of ["x-mine", "te", "proxy-authorization"])
    expect(model.seen[0]?.headers).not.toHaveProperty(name);
  expect(model.seen[0]?.headers["x-end"]).toBe("1");
  for (const name of ["x-hop", "proxy-authenticate"]) expect(response.headers).not.toHaveProperty(name);
  expect(response.headers["x-end"]).toBe("1");
});

test("a body without a stated length is passed on as it comes, whatever the method", async () => {
  const model = await upstream((call, reply) => void call.resume().on("end", () => reply.end("ok")));
  const socketPath = await relay({ baseUrl: model.url });
  for (const method of ["POST", "DELETE", "GET"]) {
    const { call, answer } = open(socketPath, { method, headers: { "transfer-encoding": "chunked" } });
    call.write("first ");
    call.end("second");
    expect(await textOf(await answer), method).toBe("ok");
  }
  expect(model.seen.map(({ method, body }) => [method, body.toString()])).toEqual([
    ["POST", "first second"],
    ["DELETE", "first second"],
    ["GET", "first second"],
  ]);
});

test("requests without a body stay without one, and errors of the provider pass unchanged", async () => {
  const model = await upstream((_, reply) => reply.writeHead(429, { "retry-after": "7" }).end('{"error":1}'));
  const socketPath = await relay({ baseUrl: model.url });
  const { response, status, body } = await send(socketPath, { method: "GET", path: "/v1/models" });
  expect([status, body, response.headers["retry-after"]]).toEqual([429, '{"error":1}', "7"]);
  expect(model.seen[0]?.headers).not.toHaveProperty("transfer-encoding");
  expect(model.seen).toHaveLength(1);
});

test("a stream's pieces arrive one by one, before the next is sent", async () => {
  let reply: ServerResponse | null = null;
  const model = await upstream((_, given) => {
    reply = given.writeHead(200, { "content-type": "text/event-stream" });
    given.flushHeaders();
  });
  const { answer } = open(await relay({ baseUrl: model.url }), { body: "{}" });
  const response = (await answer).setEncoding("utf8");
  const pieces = response[Symbol.asyncIterator]();
  for (const piece of ["data: 1\n\n", "data: größer\n\n", ": ping\n\n"]) {
    (reply as ServerResponse | null)?.write(piece);
    expect((await within(piece, pieces.next())).value).toBe(piece);
  }
  (reply as ServerResponse | null)?.end();
  expect((await pieces.next()).done).toBe(true);
  expect(response.complete).toBe(true);
});

test("a provider's reset in the middle of a stream reaches the client as one, not as an orderly end", async () => {
  const model = await upstream((call, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" }).write("data: 1\n\n");
    call.socket.once("drain", () => undefined);
    setImmediate(() => call.socket.resetAndDestroy());
  });
  const { answer } = open(await relay({ baseUrl: model.url }), { body: "{}" });
  const response = await answer;
  await expect(within("the end", textOf(response))).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(response.complete).toBe(false);
});

test("a provider's reset before any answer is told as an answer of our own", async () => {
  const model = await upstream((call) => void call.socket.resetAndDestroy());
  const { status, body } = await send(await relay({ baseUrl: model.url }), { body: "{}" });
  expect(status).toBe(502);
  expect(JSON.parse(body).error).toMatchObject({
    type: "server_error",
    code: "holdfast_upstream_unreachable",
  });
});

test.each(["000", "099"])(
  "an answer with the status %s, which is none, gives 502, and the host lives on",
  async (status) => {
    const { url, server } = await upstream(() => undefined);
    server.removeAllListeners("request");
    server.on("request", (_call, { socket }: ServerResponse) =>
      socket?.end(`HTTP/1.1 ${status} Odd\r\ncontent-length: 0\r\n\r\n`),
    );
    const answer = await send(await relay({ baseUrl: url }));
    expect(answer.status).toBe(502);
  },
);

test("a client that goes away ends the call at the provider, before and during the answer", async () => {
  let isAnswering = false;
  const ended: Promise<unknown>[] = [];
  const model = await upstream((call, reply) => {
    ended.push(closed(call.socket));
    if (isAnswering) reply.writeHead(200).write("data: 1\n\n");
  });
  const socketPath = await relay({ baseUrl: model.url });
  const waiting = open(socketPath, { body: "{}" });
  waiting.answer.catch(() => undefined);
  await until("the first call", () => ended.length === 1);
  waiting.call.destroy();
  await within("the end of the first call", Promise.all(ended));
  isAnswering = true;
  const streaming = open(socketPath, { body: "{}" });
  (await streaming.answer).destroy();
  await within("the end of the second call", Promise.all(ended));
});

test("a client that stops in the middle of its body ends the call at the provider", async () => {
  const ended: Promise<unknown>[] = [];
  const model = await upstream((call) => void ended.push(closed(call.socket)));
  const { call, answer } = open(await relay({ baseUrl: model.url }), {
    headers: { "content-length": "100" },
  });
  answer.catch(() => undefined);
  call.write("half");
  await until("the call", () => ended.length === 1);
  call.destroy();
  await within("its end", Promise.all(ended));
  expect(model.seen).toEqual([]);
});

test("a model that is not there gives 502 as JSON, which names neither key nor address", async () => {
  const gone = createServer();
  const baseUrl = await listening(gone);
  await closeServer(gone);
  const { response, status, body } = await send(await relay({ baseUrl }), { body: "{}" });
  expect(status).toBe(502);
  expect(response.headers["content-type"]).toBe("application/json");
  expect(JSON.parse(body).error.message).toBe("the model can't be reached (ECONNREFUSED)");
  expect(body).not.toContain(KEY);
});

test("paths beside the model's are not there, and nothing goes out for them", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const socketPath = await relay({ baseUrl: model.url });
  for (const path of ["/", "/v1", "/v2/chat", "/v1x/chat", "/metrics"])
    expect((await send(socketPath, { path, body: "{}" })).status, path).toBe(404);
  expect(model.seen).toEqual([]);
});

test("a request that no client would send is refused, and the host lives on", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const socketPath = await relay({ baseUrl: model.url });
  for (const path of ["/v1/\tfoo", "/v1/\ffoo", "/v1/\u00e9", "/v1/a\u0001"]) {
    const answer = await byHand(socketPath, `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
    expect(answer, JSON.stringify(path)).toMatch(/^HTTP\/1.1 (200|4\d\d) /);
  }
  for (const garbage of [
    "not http\r\n\r\n",
    "GET http://elsewhere.example/v1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
  ])
    expect(await byHand(socketPath, garbage), garbage).toMatch(/^HTTP\/1.1 4\d\d /);
  expect((await send(socketPath, { body: "{}" })).status).toBe(200);
});

test("a route that no call could take is refused at the start, not in the middle of a turn", () => {
  const ports = {
    clock: realClock,
    variables: {},
    calls: () => Promise.reject(new Error("not asked")) as never,
    onWarning: () => undefined,
  };
  const opening = (baseUrl: string, key: string | null) => () =>
    openRelay({ routes: [{ name: "a", protocol: "messages", baseUrl, key }] }, ports);
  for (const [baseUrl, key] of [
    ["http://127.0.0.1:1/v1", "sk-with-a-line\nend"],
    ["ftp://127.0.0.1/v1", null],
    ["no address", null],
  ] as const)
    expect(opening(baseUrl, key)).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
  expect(opening("http://127.0.0.1:1/v1", "sk-secret\n x")).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining("sk-secret") }),
  );
});

test("an address by number, IPv6 included, is reached", async () => {
  const seen: string[] = [];
  const server = createServer((call, reply) => {
    seen.push(`${call.headers.host} ${call.url}`);
    reply.end("ok");
  });
  server.listen(0, "::1");
  await once(server, "listening");
  onTestFinished(() => closeServer(server));
  const { port } = server.address() as { port: number };
  const { status } = await send(await relay({ baseUrl: `http://[::1]:${port}/` }), { body: "{}" });
  expect(status).toBe(200);
  expect(seen).toEqual([`[::1]:${port} /chat/completions`]);
});

test("a provider with a certificate that nobody vouches for is refused before the key goes out", async () => {
  const seen: unknown[] = [];
  const server = createTlsServer(selfSigned(), (call, reply) => {
    seen.push(call.headers);
    reply.end("{}");
  });
  server.on("tlsClientError", () => undefined);
  const baseUrl = (await listening(server as unknown as Server)).replace("http:", "https:");
  const { status, body } = await send(await relay({ baseUrl }), { body: "{}" });
  expect(status).toBe(502);
  expect(JSON.parse(body).error.message).toMatch(/DEPTH_ZERO_SELF_SIGNED_CERT/);
  expect(seen).toEqual([]);
});

test("a token that is nobody's, or is no more, is refused before anything reaches the provider", async () => {
  const model = await upstream((_, reply) => reply.end("{}"));
  const rig = await relayRig({ baseUrl: model.url });
  const good = { authorization: `Bearer ${TOKENS["chat-completions"]}` };
  const headers = [{ authorization: "" }, { "x-api-key": "bad" }, good];
  const statuses = [];
  for (const each of headers)
    statuses.push((await send(rig.socketPath, { headers: each, body: "{}" })).status);
  rig.mayCall.clear();
  statuses.push((await send(rig.socketPath, { headers: good, body: "{}" })).status);
  expect(statuses).toEqual([401, 401, 200, 401]);
  expect(model.seen).toHaveLength(1);
});

test("what is no request, behind one that is being answered, ends the connection and is in no answer", async () => {
  const replies: ServerResponse[] = [];
  const model = await upstream((_, reply) => replies.push(reply.writeHead(200)) && void reply.write("first"));
  const rig = await relayRig({ baseUrl: model.url });
  const socket = connect(rig.socketPath);
  onTestFinished(() => void socket.destroy());
  const heard: string[] = [];
  socket.on("data", (bytes: Buffer) => heard.push(bytes.toString()));
  const authorization = `authorization: Bearer ${TOKENS["chat-completions"]}`;
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n${authorization}\r\ncontent-length: 2\r\n\r\n{}`,
  );
  await until("the answer's begin", () => heard.join("").includes("first"));
  const end = closed(socket);
  socket.write("no request at all\r\n\r\n");
  await within("the end", end);
  expect(heard.join("").match(/HTTP\/1\.1/g)).toHaveLength(1);
  expect(heard.join("").endsWith("first\r\n")).toBe(true);
});
