import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { FakeClock } from "../../support/fake-clock.ts";
import { until } from "../../support/until.ts";
import { open, type RelayRigOptions, relayRig, send, TOKENS, upstream } from "./rig.ts";

const ANSWER = JSON.stringify({
  id: "chatcmpl-1",
  choices: [],
  usage: { prompt_tokens: 30, completion_tokens: 4 },
});

/** A member with a budget that the test decides on, and a model that counts its calls. */
async function metered(options: RelayRigOptions = {}, mayReserve = true, answer: string = ANSWER) {
  const asked: Array<[string, number]> = [];
  const looked: string[] = [];
  const settled: Array<[string, number | null]> = [];
  const model = await upstream((call, reply) => void call.resume().on("end", () => reply.end(answer)));
  const rig = await relayRig({
    baseUrl: model.url,
    ...options,
    budgets: {
      of(member) {
        looked.push(member);
        return { limitTokens: 1, spentTokens: 0, reservedTokens: 0, remainingTokens: 1 };
      },
      reserve(_, member, inputTokens) {
        // Before a byte goes out.
        expect(model.seen).toEqual([]);
        asked.push([member, inputTokens]);
        return mayReserve;
      },
      settle: (call, tokens) => void settled.push([call, tokens]),
    },
  });
  return { model, asked, looked, settled, ...rig };
}

const BODY = JSON.stringify({ model: "m", messages: [{ role: "user", content: "größer 😀" }] });

test("a call that fits is reserved before it goes out, passes unchanged, and is settled with what it used", async () => {
  for (const headers of [{}, { "transfer-encoding": "chunked" }] as Array<Record<string, string>>) {
    const t = await metered();
    const auth = { authorization: `Bearer ${TOKENS["chat-completions"]}` };
    const { status, body } = await send(t.socketPath, { body: BODY, headers: { ...auth, ...headers } });
    expect([status, body]).toEqual([200, ANSWER]);
    expect(t.model.seen[0]?.body.toString()).toBe(BODY);
    await t.relay.settled();
    expect(t.asked).toEqual([["chat-completions", expect.any(Number) as number]]);
    expect(t.settled).toEqual([[t.records[0]?.call.id, 34]]);
  }
});

test("what can't be reserved is not sent, and is told as no refusal that is tried again", async () => {
  const t = await metered({}, false);
  const { status, body } = await send(t.socketPath, { body: BODY });
  expect([status, JSON.parse(body).error.code]).toEqual([400, "holdfast_budget_exhausted"]);
  expect([t.model.seen, t.records, t.settled]).toEqual([[], [], []]);
});

test("what nobody can tell is settled as such, and a provider's refusal as nothing", async () => {
  const silent = await metered({}, true, "{}");
  await send(silent.socketPath, { body: BODY });
  await silent.relay.settled();
  expect(silent.settled[0]?.[1]).toBeNull();
  const t = await metered();
  t.model.server.removeAllListeners("request");
  t.model.server.on(
    "request",
    (call, reply) => void call.resume().on("end", () => reply.writeHead(429).end("{}")),
  );
  await send(t.socketPath, { body: BODY });
  await t.relay.settled();
  expect(t.settled[0]?.[1]).toBe(0);
});

test("only what makes an answer is metered", async () => {
  const t = await metered({}, false);
  expect((await send(t.socketPath, { path: "/v1/messages/count_tokens", body: "{}" })).status).toBe(200);
  expect((await send(t.socketPath, { path: "/v1/models", method: "GET" })).status).toBe(200);
  expect(t.asked).toEqual([]);
});

test("a body over its limit, one that does not come, and a client that goes away are sent nowhere", async () => {
  const clock = new FakeClock();
  const t = await metered({ clock, limits: { requestBytes: 2000, idleMs: 5000 } });
  const auth = { authorization: `Bearer ${TOKENS["chat-completions"]}` };
  const chunked = { ...auth, "transfer-encoding": "chunked" };
  expect((await send(t.socketPath, { headers: chunked, body: Buffer.alloc(3000, "x") })).status).toBe(413);
  const slow = open(t.socketPath, { headers: chunked });
  slow.call.write("half");
  const gone = open(t.socketPath, { headers: chunked });
  gone.call.write("half");
  gone.call.destroy();
  let isAnswered = false;
  void slow.answer.finally(() => {
    isAnswered = true;
  });
  await until("the refusal", async () => {
    await clock.elapse(1000);
    return isAnswered;
  });
  expect((await slow.answer).statusCode).toBe(504);
  expect([t.asked, t.model.seen]).toEqual([[], []]);
});

test("a process that ends while its request comes sends nothing more", async () => {
  const t = await metered();
  const headers = { authorization: `Bearer ${TOKENS["chat-completions"]}`, "transfer-encoding": "chunked" };
  const { call, answer } = open(t.socketPath, { headers });
  call.write("half");
  await until("its head", () => t.looked.length === 1);
  t.mayCall.clear();
  call.end();
  expect((await answer).statusCode).toBe(401);
  expect(t.model.seen).toEqual([]);
});

test("S14: whatever may make a model answer is metered, and costs all that was reserved where no figures are read", async () => {
  const t = await metered();
  expect((await send(t.socketPath, { path: "/v1/embeddings", body: BODY })).status).toBe(200);
  expect(t.asked).toHaveLength(1);
  await until("the settlement", () => t.settled.length === 1);
  expect(t.settled[0]?.[1]).toBeNull();
  expect((await send(t.socketPath, { method: "GET", path: "/v1/models" })).status).toBe(200);
  await send(t.socketPath, { path: "/v1/messages/count_tokens", body: BODY });
  expect(t.asked).toHaveLength(1);
});

test("S14: a coded body is reserved for by what it holds and passes as it came; one that can't be read is sent nowhere", async () => {
  const plain = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(30_000) }] });
  const coded = gzipSync(plain);
  const t = await metered();
  expect((await send(t.socketPath, { headers: { "content-encoding": "gzip" }, body: coded })).status).toBe(
    200,
  );
  expect(t.asked[0]?.[1]).toBeGreaterThan(10_000);
  expect(t.model.seen[0]?.body).toEqual(coded);
  const bad = await metered();
  for (const [coding, body] of [
    ["gzip", Buffer.from(plain)],
    ["some", coded],
  ] as const) {
    const { status } = await send(bad.socketPath, { headers: { "content-encoding": coding }, body });
    expect(status).toBe(400);
  }
  expect([bad.asked, bad.model.seen]).toEqual([[], []]);
});
