import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { relayRig, send, upstream } from "./rig.ts";

const REQUEST = JSON.stringify({ model: "m1", messages: [{ role: "user", content: "the secret text" }] });
const ANSWER = JSON.stringify({
  id: "chatcmpl-9",
  model: "m1-2026",
  choices: [{ finish_reason: "stop", message: { content: "the secret answer" } }],
  usage: { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 },
});

async function called(
  options: {
    path?: string;
    method?: string;
    headers?: Record<string, string>;
    body?: string;
    gzip?: boolean;
  } = {},
) {
  const model = await upstream(
    (call, reply) =>
      void call.resume().on("end", () => {
        const bytes = options.gzip === true ? gzipSync(ANSWER) : Buffer.from(ANSWER);
        const coding = options.gzip === true ? { "content-encoding": "gzip" } : {};
        reply
          .writeHead(200, { "content-type": "application/json", ...coding, ...options.headers })
          .end(bytes);
      }),
  );
  const rig = await relayRig({ baseUrl: model.url });
  const { path = "/v1/chat/completions?x=secret", method = "POST", body = REQUEST } = options;
  await send(rig.socketPath, method === "GET" ? { path, method } : { path, method, body });
  await rig.relay.settled();
  const [record] = rig.records;
  if (record === undefined) throw new Error("nothing was recorded");
  return record;
}

test("a record says whose the call was, how it went and what it used", async () => {
  const { call, digest } = await called({
    headers: { "x-request-id": "req-1", "x-cpa-trace-id": "t-1", "set-cookie": "secret" },
  });
  expect(call).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    sandbox: "box",
    member: "chat-completions",
    turn: "turn-1",
    processGeneration: 7,
    nativeId: "ses_1",
    protocol: "chat-completions",
    route: "chat-completions",
    path: "/chat/completions",
    purpose: "generate",
    model: "m1",
    startedAt: expect.any(Number) as number,
    firstByteMs: expect.any(Number) as number,
    totalMs: expect.any(Number) as number,
    status: 200,
    outcome: "completed",
    requestBytes: REQUEST.length,
    responseBytes: ANSWER.length,
    requestSha256: createHash("sha256").update(REQUEST).digest("hex"),
    answerId: "chatcmpl-9",
    providerRequestId: "req-1",
    gatewayTraceId: "t-1",
    answerModel: "m1-2026",
    stopReason: "stop",
    isTerminal: true,
    usageObserved: true,
    usage: expect.objectContaining({ state: "known", allInputTokens: 12, allOutputTokens: 3 }) as object,
  });
  expect(digest?.blocks).toHaveLength(1);
  // Neither texts nor addresses, keys, cookies or queries.
  expect(JSON.stringify([call, digest])).not.toMatch(/secret|127\.0\.0\.1|sk-the|token-of/);
});

test("what is compressed is read along all the same", async () => {
  expect((await called({ gzip: true })).call.usage).toMatchObject({ state: "known", allInputTokens: 12 });
});

test("an id that looks like none is not kept", async () => {
  const { call } = await called({
    headers: { "x-request-id": "https://p.example/secret path", "x-cpa-trace-id": "y".repeat(200) },
  });
  expect([call.providerRequestId, call.gatewayTraceId]).toEqual([null, null]);
});

test("Anthropic's own header of the request id is read too", async () => {
  expect((await called({ headers: { "request-id": "req_011" } })).call.providerRequestId).toBe("req_011");
});

test("a call that asks for no answer has no usage to state", async () => {
  const { call, digest } = await called({ path: "/v1/models", method: "GET" });
  expect(call).toMatchObject({
    purpose: "other",
    usage: { state: "unknown" },
    usageObserved: false,
    model: null,
  });
  expect(digest).toBeNull();
});
