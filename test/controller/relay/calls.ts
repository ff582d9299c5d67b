// One good record of a call of a model, and digests of requests, for tests to change.
import type { CallUsage } from "../../../controller/relay/call-usage.ts";
import type { ModelCall } from "../../../controller/relay/model-call.ts";
import { digestRequest, type RequestDigest } from "../../../controller/relay/request-digest.ts";
import type { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { AT, DIGEST_A } from "../../support/samples.ts";

export const KNOWN: CallUsage = {
  state: "known",
  inputTokens: 30,
  outputTokens: 15,
  reasoningTokens: 5,
  cacheReadTokens: 60,
  cacheWriteTokens: 10,
  allInputTokens: 100,
  allOutputTokens: 20,
};

export const CALL: ModelCall = {
  id: "00000000-0000-4000-8000-000000000001",
  sandbox: "box",
  member: "m-1",
  turn: "t-1",
  processGeneration: 1,
  nativeId: "ses_1",
  protocol: "chat-completions",
  route: "default",
  path: "/chat/completions",
  purpose: "generate",
  model: "m1",
  startedAt: AT,
  firstByteMs: 12.5,
  totalMs: 40,
  status: 200,
  outcome: "completed",
  requestBytes: 2000,
  responseBytes: 900,
  requestSha256: DIGEST_A,
  answerId: "chatcmpl-1",
  providerRequestId: "req_1",
  gatewayTraceId: null,
  answerModel: "m1",
  stopReason: "stop",
  isTerminal: true,
  usageObserved: true,
  usage: KNOWN,
  prefix: null,
};

export const tool = (name: string): object => ({ type: "function", function: { name, parameters: {} } });

/** A Chat Completions body: a system text, one tool, and these texts of user and assistant in turn. */
export function chatBody(texts: readonly string[], more: object = {}): object {
  const history = texts.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content }));
  return {
    model: "m1",
    messages: [{ role: "system", content: "You are one." }, ...history],
    tools: [tool("bash")],
    stream: true,
    ...more,
  };
}

/** Throws when the body gets none. */
export function digestOf(
  body: unknown,
  headers: Record<string, string> = { "x-session-id": "ses_1" },
  protocol: ModelProtocol = "chat-completions",
): RequestDigest {
  const digest = digestRequest(protocol, headers, Buffer.from(JSON.stringify(body)));
  if (digest === null) throw new TypeError("this body gets no digest");
  return digest;
}
