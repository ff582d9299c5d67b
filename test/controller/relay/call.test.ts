import type { IncomingMessage, ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { expect, test } from "vitest";
import { FakeClock } from "../../support/fake-clock.ts";
import { until, within } from "../../support/until.ts";
import { closed, open, type RelayRigOptions, relayRig, send, upstream } from "./rig.ts";

const START =
  'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":11,"output_tokens":1}}}\n\n';
const PIECE = 'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"more"}}\n\n';
const END =
  'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n';

/** A model whose answers the test writes by hand, one after the other. */
async function played(options: RelayRigOptions = {}) {
  const replies: ServerResponse[] = [];
  const calls: IncomingMessage[] = [];
  const ends: Promise<void>[] = [];
  const model = await upstream((call, reply) => {
    calls.push(call);
    replies.push(reply);
    ends.push(closed(call.socket));
  });
  const rig = await relayRig({ baseUrl: model.url, ...options });
  const reply = (at = 0) => until(`call ${at + 1}`, () => replies[at]);
  const record = (at = 0) => until(`record ${at + 1}`, () => rig.records[at]?.call);
  return { ...rig, model, calls, ends, reply, record };
}

const MESSAGES = { path: "/v1/messages", body: '{"model":"m","messages":[]}' };

test("S27: a client that goes away in the middle of a stream: the provider is heard to its end, and its usage is kept", async () => {
  const t = await played();
  const { answer } = open(t.socketPath, MESSAGES);
  const reply = await t.reply();
  reply.writeHead(200, { "content-type": "text/event-stream" }).write(START);
  const response = await answer;
  response.destroy();
  await within("the client's end", closed(response.socket));
  reply.write(PIECE);
  reply.end(END);
  const call = await t.record();
  expect(call).toMatchObject({ outcome: "cancelled", status: 200, isTerminal: true, answerId: "msg_1" });
  expect(call.usage).toMatchObject({ state: "known", inputTokens: 11, outputTokens: 5 });
});

test("S27: a provider that goes on for longer is closed after the drain, and what it stated till then is what is known", async () => {
  const t = await played({ limits: { drainMs: 100 } });
  const { answer } = open(t.socketPath, MESSAGES);
  const reply = await t.reply();
  reply.writeHead(200, { "content-type": "text/event-stream" }).write(START);
  (await answer).destroy();
  const goneMs = performance.now();
  const writing = setInterval(() => reply.write(PIECE), 5);
  try {
    await within("the provider's end", Promise.all(t.ends));
  } finally {
    clearInterval(writing);
  }
  expect(performance.now() - goneMs).toBeGreaterThan(95);
  expect(await t.record()).toMatchObject({
    outcome: "cancelled",
    isTerminal: false,
    usageObserved: true,
    usage: { state: "unknown" },
  });
});

test("S27: also a client that goes before the answer's first byte gets the drain; with a limit of 0 nobody does", async () => {
  const t = await played();
  open(t.socketPath, MESSAGES).call.on("error", () => undefined);
  const { call } = open(t.socketPath, MESSAGES);
  const first = await t.reply();
  await t.reply(1);
  await until("both requests", () => t.model.seen.length === 2);
  call.destroy();
  first.end("{}");
  const reply = await t.reply(1);
  await until("the client's end", () => t.records.length === 1);
  reply.writeHead(200, { "content-type": "text/event-stream" }).end(START + END);
  expect(await t.record(1)).toMatchObject({ outcome: "cancelled", usage: { state: "known" } });

  const none = await played({ limits: { drainMs: 0 } });
  const left = open(none.socketPath, MESSAGES);
  (await none.reply()).writeHead(200).write("x");
  (await left.answer).destroy();
  await within("the provider's end", Promise.all(none.ends));
  expect(await none.record()).toMatchObject({ outcome: "cancelled", isTerminal: false });
});

test("S27: a revoke ends both sides at once, in the middle of a drain too", async () => {
  const t = await played({ limits: { drainMs: 60_000 } });
  const running = open(t.socketPath, MESSAGES);
  (await t.reply()).writeHead(200).write("x");
  const response = await running.answer;
  const left = open(t.socketPath, MESSAGES);
  (await t.reply(1)).writeHead(200).write("x");
  (await left.answer).destroy();
  const other = open(t.socketPath, { body: "{}" });
  const reply = await t.reply(2);
  t.door.recheck();
  expect(t.records).toEqual([]);
  t.mayCall.delete("messages");
  t.door.recheck();
  await within("the provider's ends", Promise.all(t.ends.slice(0, 2)));
  await expect(textOf(response)).rejects.toMatchObject({ code: "ECONNRESET" });
  expect([(await t.record()).outcome, (await t.record(1)).outcome]).toEqual(["revoked", "revoked"]);
  // Another process's call is not concerned.
  reply.end("{}");
  expect((await other.answer).statusCode).toBe(200);
});

test("a client that takes nothing holds the provider back, and memory stays where it was", async () => {
  const piece = Buffer.alloc(64 * 1024, "x");
  const total = 64 * 1024 * 1024;
  let sent = 0;
  const t = await played();
  const { answer } = open(t.socketPath, { body: "{}" });
  const reply = await t.reply();
  const write = () => {
    while (sent < total) {
      sent += piece.length;
      if (!reply.write(piece)) return void reply.once("drain", write);
    }
    reply.end();
  };
  write();
  const response = await answer;
  let before = -1;
  await until("the provider held back", async () => {
    const isHeld = sent === before;
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 100));
    return isHeld && sent > 0;
  });
  expect(sent).toBeLessThan(16 * 1024 * 1024);
  let got = 0;
  for await (const chunk of response) got += (chunk as Buffer).length;
  expect(got).toBe(total);
  expect(await t.record()).toMatchObject({ outcome: "completed", responseBytes: total });
});

test("a provider that takes nothing holds the client back", async () => {
  const piece = Buffer.alloc(64 * 1024, "x");
  const total = 48 * 1024 * 1024;
  let isReading = false;
  const waiting: IncomingMessage[] = [];
  const { url } = await upstream((call, reply) => {
    call.on("end", () => reply.end("ok"));
    waiting.push(call);
    if (!isReading) call.pause();
  });
  const t = await relayRig({ baseUrl: url });
  const { call, answer } = open(t.socketPath, {
    headers: { "transfer-encoding": "chunked", authorization: "Bearer token-of-chat" },
  });
  let sent = 0;
  const write = () => {
    while (sent < total) {
      sent += piece.length;
      if (!call.write(piece)) return void call.once("drain", write);
    }
    call.end();
  };
  write();
  let before = -1;
  await until("the client held back", async () => {
    const isHeld = sent === before && waiting.length > 0;
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 100));
    return isHeld;
  });
  expect(sent).toBeLessThan(16 * 1024 * 1024);
  isReading = true;
  waiting[0]?.resume();
  expect(await textOf(await answer)).toBe("ok");
  await until("the record", () => t.records[0]?.call.requestBytes === total);
});

const body = (bytes: number) => Buffer.alloc(bytes, "x");

test("limits by name: what passes one is refused in the protocol's own shape", async () => {
  const t = await played({ limits: { requestBytes: 2000, headerBytes: 4096 } });
  const announced = await send(t.socketPath, { path: "/v1/messages", body: body(2001) });
  expect([announced.status, JSON.parse(announced.body)]).toEqual([
    413,
    {
      type: "error",
      error: { type: "request_too_large", message: "a request may have 2000 bytes" },
      request_id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    },
  ]);
  expect(t.calls).toEqual([]);
  const unannounced = await send(t.socketPath, {
    headers: { "transfer-encoding": "chunked", authorization: "Bearer token-of-chat" },
    body: body(5000),
  });
  expect([unannounced.status, JSON.parse(unannounced.body)]).toEqual([
    413,
    {
      error: {
        message: "the call passed the limit requestBytes (2000)",
        type: "invalid_request_error",
        param: null,
        code: "holdfast_body_too_large",
      },
    },
  ]);
  expect(await t.record()).toMatchObject({ outcome: "limit_passed", status: null });
  const headers = await send(t.socketPath, { headers: { "x-long": "y".repeat(5000) }, body: "{}" });
  expect([headers.status, JSON.parse(headers.body).error.code]).toEqual([431, "holdfast_headers_too_large"]);
});

test("limits by name: silence and length of a call, before its answer and in the middle of it", async () => {
  const clock = new FakeClock();
  const t = await played({ clock, limits: { idleMs: 5000, totalMs: 12_000 } });
  const silent = open(t.socketPath, MESSAGES);
  await t.reply();
  await until("the request", () => t.model.seen.length === 1);
  await clock.elapse(5000);
  const refused = await silent.answer;
  expect([refused.statusCode, JSON.parse(await textOf(refused)).error.type]).toEqual([504, "timeout_error"]);
  expect(await t.record()).toMatchObject({ outcome: "limit_passed", status: null });

  const long = open(t.socketPath, MESSAGES);
  const reply = await t.reply(1);
  reply.writeHead(200).flushHeaders();
  const response = await long.answer;
  const pieces = response[Symbol.asyncIterator]();
  for (let spent = 0; spent < 12_000; spent += 3000) {
    reply.write(PIECE);
    await within("a piece", pieces.next());
    await clock.elapse(3000);
  }
  await expect(within("the cut", pieces.next())).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(await t.record(1)).toMatchObject({ outcome: "limit_passed", status: 200 });
  expect(t.warnings.join("\n")).toMatch(/idleMs[\s\S]*totalMs/);
});

test("limits by name: an answer of too many bytes, and one with headers of too many", async () => {
  const t = await played({ limits: { answerBytes: 10_000, headerBytes: 4096 } });
  const { answer } = open(t.socketPath, MESSAGES);
  const reply = await t.reply();
  reply.writeHead(200).write(body(9000));
  const response = await answer;
  reply.write(body(2000));
  await expect(within("the cut", textOf(response))).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(await t.record()).toMatchObject({ outcome: "limit_passed", responseBytes: 11_000 });
  const long = open(t.socketPath, MESSAGES);
  (await t.reply(1)).writeHead(200, { "x-long": "y".repeat(5000) }).end("{}");
  expect((await long.answer).statusCode).toBe(502);
});

test("S28: nothing is tried again: an overloaded provider and one that resets are each asked once", async () => {
  const t = await played();
  const first = open(t.socketPath, MESSAGES);
  (await t.reply()).writeHead(503, { "retry-after": "1" }).end("later");
  expect([(await first.answer).statusCode, await textOf(await first.answer)]).toEqual([503, "later"]);
  const second = open(t.socketPath, MESSAGES);
  await t.reply(1);
  t.calls[1]?.socket.resetAndDestroy();
  expect((await second.answer).statusCode).toBe(502);
  expect(await t.record(1)).toMatchObject({ outcome: "unreachable", status: null });
  expect(t.calls).toHaveLength(2);
});

test("an answer that comes before the whole request passes, and the call ends", async () => {
  const t = await played();
  const { call, answer } = open(t.socketPath, {
    headers: { "content-length": "100", authorization: "Bearer token-of-chat" },
  });
  call.write("half");
  (await t.reply()).writeHead(400, { connection: "close" }).end("no");
  const response = await answer;
  expect([response.statusCode, await textOf(response)]).toEqual([400, "no"]);
  expect(await t.record()).toMatchObject({ outcome: "completed", status: 400, requestBytes: 4 });
});

test("when the host lets go, what runs is cut and recorded", async () => {
  const t = await played();
  const { answer } = open(t.socketPath, MESSAGES);
  (await t.reply()).writeHead(200).write("x");
  const response = await answer;
  t.door.cut();
  await t.relay.settled();
  expect(t.records.map(({ call }) => call.outcome)).toEqual(["cut"]);
  await expect(textOf(response)).rejects.toMatchObject({ code: "ECONNRESET" });
});
