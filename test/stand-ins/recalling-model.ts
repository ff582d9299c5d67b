// A model for the preflight: answers each of its questions from the history that really arrived, thinks aloud in each
// protocol's own way, names request ids, and plays what the loopback model can't: a key sent back, a stream that is none.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { ModelProtocol } from "../../protocol/model-protocol.ts";
import { anthropicMessages } from "../support/model/anthropic-messages.ts";
import { readBody } from "../support/model/body.ts";
import { chatCompletions } from "../support/model/chat-completions.ts";
import type { FinishReason } from "../support/model/neutral.ts";
import { responses } from "../support/model/responses.ts";

export interface RecallingOptions {
  /** What it says in the place of the right answer; number counts from 1. */
  answer?: (right: string, number: number) => string;
  thinks?: boolean;
  finish?: FinishReason;
  headers?: (got: IncomingHttpHeaders) => Record<string, string>;
  /** Answers in its own way; true: it did. */
  plays?: (response: ServerResponse, got: { headers: IncomingHttpHeaders; number: number }) => boolean;
  models?: readonly string[];
}

export interface RecallingModel {
  /** Base URL, with `/v1`. */
  readonly url: string;
  readonly requests: Array<{ path: string; headers: IncomingHttpHeaders; body: string }>;
}

const USAGE = {
  inputTokens: 9,
  outputTokens: 9,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};
const WIRES = { "chat-completions": chatCompletions, responses, messages: anthropicMessages } as const;

/** One event of thinking, as each protocol streams it. */
export const THINKING: Readonly<Record<ModelProtocol, string>> = {
  "chat-completions": sse({ choices: [{ index: 0, delta: { reasoning_content: "Let me look." } }] }),
  responses: sse({ type: "response.reasoning_summary_text.delta", delta: "Let me look." }),
  messages: sse({
    type: "content_block_delta",
    index: 0,
    delta: { type: "thinking_delta", thinking: "Let me look." },
  }),
};

export async function startRecallingModel(options: RecallingOptions = {}): Promise<RecallingModel> {
  const { answer = (right) => right, thinks = true, finish = "stop", headers = () => ({}), models } = options;
  const requests: RecallingModel["requests"] = [];
  let calls = 0;
  const server = createServer((inbound, response) => {
    respond(inbound, response).catch(() => response.destroy());
  });
  async function respond(inbound: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(inbound);
    const path = inbound.url ?? "";
    requests.push({ path, headers: inbound.headers, body });
    if (path === "/v1/models") {
      response.end(JSON.stringify({ data: (models ?? ["m1"]).map((id) => ({ id })) }));
      return;
    }
    calls += 1;
    if (options.plays?.(response, { headers: inbound.headers, number: calls })) return;
    const protocol = ModelProtocol.options.find((each) => WIRES[each].path === path);
    if (protocol === undefined) {
      response.writeHead(404).end();
      return;
    }
    const wire = WIRES[protocol];
    const request = wire.parse(JSON.parse(body));
    const writer = wire.streamWriter(request, `id${calls}`, Date.now());
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "x-request-id": `req-${calls}`,
      ...headers(inbound.headers),
    });
    const users = request.rows.filter(({ role }) => role === "user").map(({ text }) => text);
    const said = answer(rightAnswer(users), calls);
    const pieces = [writer.start(USAGE), thinks ? THINKING[protocol] : "", writer.text(said)];
    response.end([...pieces, writer.finish(finish, USAGE)].join(""));
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, requests };
}

export function rightAnswer(users: readonly string[]): string {
  const facts = [...new Set(users.flatMap((text) => text.match(/\b[a-z]+-\d{4}\b/g) ?? []))];
  if (facts.length === 0) return "You have not told me any code word.";
  return facts.length === 2 ? `now: ${facts[1]}\nbefore: ${facts[0]}` : `It is **${facts[0]}**.`;
}

function sse(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
