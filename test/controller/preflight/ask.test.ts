import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createServer as createPlainServer, type Server, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { realClock } from "../../../controller/clock.ts";
import { ASK_LIMITS, type Asked, type AskOptions, ask } from "../../../controller/preflight/ask.ts";
import { wireCall } from "../../../controller/preflight/request-body.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { startRecallingModel } from "../../stand-ins/recalling-model.ts";
import { type ModelServer, startModelServer } from "../../support/model/server.ts";
import type { StepInput } from "../../support/model/steps.ts";
import { selfSigned } from "../../support/self-signed.ts";
import { until } from "../../support/until.ts";

const MESSAGES = [{ role: "user" as const, text: "Hello." }];
const PROTOCOLS = ModelProtocol.options;

async function model(steps: StepInput[], expectedKey?: string): Promise<ModelServer> {
  const server = await startModelServer(expectedKey === undefined ? {} : { expectedKey });
  onTestFinished(() => server.close());
  server.setDefault(steps);
  return server;
}

function call(baseUrl: string, protocol: ModelProtocol, more: Partial<AskOptions> = {}): Promise<Asked> {
  return ask(wireCall(protocol, "m1", MESSAGES), {
    baseUrl,
    protocol,
    key: null,
    proxy: null,
    limits: ASK_LIMITS,
    clock: realClock,
    signal: new AbortController().signal,
    ...more,
  });
}

test.for(PROTOCOLS)(
  "%s: an answer is read to its end, with the key in the protocol's header",
  async (protocol) => {
    const { url } = await model(["It is so."], "the-key");
    const { status, fault, answer, firstByteMs, totalMs } = await call(`${url}/`, protocol, {
      key: "the-key",
    });
    expect({ status, fault }).toEqual({ status: 200, fault: null });
    expect(answer).toMatchObject({ text: "It is so.", isTerminal: true, error: null });
    expect(firstByteMs).toBeLessThanOrEqual(totalMs);
  },
);

test.for(PROTOCOLS)("%s: every status but 200 is told with the provider's own message", async (protocol) => {
  for (const status of [201, 302, 400, 401, 429, 500, 529]) {
    const { url } = await model([{ kind: "status", status }]);
    const { fault, answer, status: got } = await call(url, protocol);
    expect({ got, answer }).toEqual({ got: status, answer: null });
    expect(fault).toEqual({ kind: "http_status", detail: `status ${status}: scripted status ${status}` });
  }
  const { url } = await model(["x"], "right");
  expect((await call(url, protocol, { key: "wrong" })).fault?.detail).toBe(
    "status 401: wrong or missing key",
  );
});

test.for(PROTOCOLS)("%s: a stream that breaks, errs or ends early", async (protocol) => {
  const cut = await call((await model([{ kind: "cut", text: "half of" }])).url, protocol);
  expect(cut.fault).toMatchObject({
    kind: "stream_error",
    detail: expect.stringMatching(/ECONNRESET/) as string,
  });
  expect(cut.answer?.text).toBe("half of");
  const destroyed = await call((await model([{ kind: "destroy" }])).url, protocol);
  expect(destroyed.fault).toMatchObject({
    kind: "stream_error",
    detail: expect.stringMatching(/before an answer/) as string,
  });
  const early = await call((await model([{ kind: "endEarly", text: "half of" }])).url, protocol);
  expect(early).toMatchObject({ fault: null, answer: { text: "half of", isTerminal: false } });
  const failed = await call((await model([{ kind: "errorChunk", message: "it broke" }])).url, protocol);
  expect(failed).toMatchObject({
    fault: null,
    answer: { error: expect.stringContaining("it broke") as string },
  });
});

test.for(PROTOCOLS)(
  "%s: each limit ends the call by its name, and the server is let go of",
  async (protocol) => {
    const limited = async (step: StepInput, limits: Partial<typeof ASK_LIMITS>) => {
      const server = await model([step]);
      const { fault, answer } = await call(server.url, protocol, { limits: { ...ASK_LIMITS, ...limits } });
      await until("the client's going", () => server.requests().every(({ ending }) => ending !== "open"));
      return { ...fault, text: answer?.text };
    };
    expect(
      await limited({ kind: "reply", text: "late", beforeFirstByteMs: 60_000 }, { firstByteMs: 60 }),
    ).toEqual({
      kind: "time_limit",
      detail: "firstByteMs: no answer within 60 ms",
      text: undefined,
    });
    expect(await limited({ kind: "hang" }, { idleMs: 60 })).toMatchObject({
      detail: "idleMs: nothing more of the answer within 60 ms",
    });
    expect(await limited({ kind: "stall", text: "half of" }, { idleMs: 60 })).toMatchObject({
      kind: "time_limit",
      text: "half of",
    });
    expect(await limited({ kind: "neverEnd", text: "x ", everyMs: 5 }, { totalMs: 150 })).toMatchObject({
      detail: "totalMs: not done within 150 ms",
    });
    expect(await limited({ kind: "neverEnd", text: "x ", everyMs: 1 }, { answerBytes: 2000 })).toMatchObject({
      kind: "unreadable",
      detail: "answerBytes: the answer is longer than 2000 bytes",
    });
  },
);

test("an answer that goes on for longer than the silence that is let pass is read to its end", async () => {
  const text = Array.from({ length: 40 }, (_, at) => `${at} `);
  const { url } = await model([{ kind: "reply", text, betweenChunksMs: 20 }]);
  const { fault, answer, totalMs } = await call(url, "messages", { limits: { ...ASK_LIMITS, idleMs: 500 } });
  expect(totalMs).toBeGreaterThan(500);
  expect({ fault, text: answer?.text }).toEqual({ fault: null, text: text.join("") });
});

test("a signal ends a call wherever it is, at once", async () => {
  for (const step of [
    { kind: "hang" },
    { kind: "reply", text: "x", beforeFirstByteMs: 60_000 },
  ] as StepInput[]) {
    const server = await model([step]);
    const stop = new AbortController();
    const ended = call(server.url, "messages", { signal: stop.signal });
    await until("the request", () => server.requests().length === 1);
    stop.abort();
    expect((await ended).fault).toEqual({ kind: "interrupted", detail: "it was interrupted" });
  }
  const { url } = await model(["x"]);
  expect((await call(url, "messages", { signal: AbortSignal.abort() })).fault?.kind).toBe("interrupted");
});

test("nobody listening, a name that is none, and a server that never answers TLS are told", async () => {
  expect((await call("http://127.0.0.1:1/v1", "responses")).fault).toEqual({
    kind: "unreachable",
    detail: "it can't be reached (ECONNREFUSED)",
  });
  const name = await call("http://nowhere.invalid/v1", "responses");
  expect(name.fault).toMatchObject({
    kind: "unreachable",
    detail: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) as string,
  });
  const silent = await plain((socket) => socket.resume());
  const limits = { ...ASK_LIMITS, connectMs: 60 };
  expect((await call(`https://127.0.0.1:${silent}/v1`, "responses", { limits })).fault).toEqual({
    kind: "time_limit",
    detail: "connectMs: not connected within 60 ms",
  });
});

test("a certificate that nobody vouches for is refused, with the way to name an authority", async () => {
  const server = createServer(selfSigned(), (_, response) => response.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { fault, status } = await call(`https://127.0.0.1:${port}/v1`, "messages", { key: "the-key" });
  expect(status).toBeNull();
  expect(fault?.kind).toBe("unreachable");
  expect(fault?.detail).toMatch(/^TLS: .*self-signed.*NODE_EXTRA_CA_CERTS/);
});

test("a server that speaks no TLS is said to speak none", async () => {
  const port = await plain((socket) =>
    socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")),
  );
  const { fault } = await call(`https://127.0.0.1:${port}/v1`, "messages");
  expect(fault).toMatchObject({
    kind: "unreachable",
    detail: expect.stringMatching(/^TLS: the other side speaks none/) as string,
  });
});

test("an answer that is no stream is unreadable, with what it says", async () => {
  const { url } = await startRecallingModel({
    plays(response) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "no such route" } }));
      return true;
    },
  });
  expect((await call(url, "responses")).fault).toEqual({
    kind: "unreadable",
    detail: "the answer is no event stream: no such route",
  });
});

test("an error's body without an end is read to its bound and no further", async () => {
  const { url } = await startRecallingModel({
    plays(response) {
      response.writeHead(500, { "content-type": "text/plain" });
      const timer = setInterval(() => response.write("x".repeat(32_768)), 1);
      response.once("close", () => clearInterval(timer));
      return true;
    },
  });
  const { fault } = await call(url, "responses");
  expect(fault?.kind).toBe("http_status");
  expect(fault?.detail.length).toBeLessThan(70_000);
});

test.for([
  ["x-request-id", "req-1.a:b_c", "req-1.a:b_c"],
  ["request-id", "req_011", "req_011"],
  ["x-cpa-trace-id", "trace-9", "trace-9"],
  ["x-request-id", "a b", null],
  ["x-request-id", "x".repeat(129), null],
  ["authorization", "Bearer abc", null],
  ["set-cookie", "a=b", null],
] as const)("the request's id: %s %s", async ([name, value, shown]) => {
  const { url } = await startRecallingModel({
    plays(response) {
      response.writeHead(200, { "content-type": "text/event-stream", [name]: value });
      response.end();
      return true;
    },
  });
  expect((await call(url, "messages")).requestId).toBe(shown);
});

async function plain(onSocket: (socket: Socket) => void): Promise<number> {
  const server: Server = createPlainServer((socket) => {
    socket.on("error", () => undefined);
    onTestFinished(() => void socket.destroy());
    onSocket(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
