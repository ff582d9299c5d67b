/**
 * One call of the preflight on the wire: path, headers and body of each model protocol, streaming as a CLI's own call. Pure.
 * Each asks for adaptive or high effort in the protocol's own words.
 */
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { INSTRUCTIONS, type PreflightMessage } from "./cases.ts";

/** Thinking counts within it where the protocol says so; an answer of three sentences leaves plenty. */
const OUTPUT_TOKENS = 8192;

export interface WireCall {
  /** Below the base URL. */
  path: string;
  /** Without the key. */
  headers: Record<string, string>;
  body: string;
}

/** Anthropic's API refuses a request that names no version. */
export function versionHeader(protocol: ModelProtocol): Record<string, string> {
  return protocol === "messages" ? { "anthropic-version": "2023-06-01" } : {};
}

export function wireCall(
  protocol: ModelProtocol,
  model: string,
  messages: readonly PreflightMessage[],
): WireCall {
  const { path, body } = callOf(protocol, model, messages);
  return {
    path,
    headers: {
      "content-type": "application/json",
      accept: "text/event-stream",
      "user-agent": "holdfast-preflight",
      ...versionHeader(protocol),
    },
    body: JSON.stringify(body),
  };
}

function callOf(protocol: ModelProtocol, model: string, messages: readonly PreflightMessage[]) {
  switch (protocol) {
    case "chat-completions":
      return {
        path: "/chat/completions",
        body: {
          model,
          messages: [
            { role: "system", content: INSTRUCTIONS },
            ...messages.map(({ role, text }) => ({ role, content: text })),
          ],
          stream: true,
          stream_options: { include_usage: true },
          reasoning_effort: "high",
        },
      };
    case "responses":
      return {
        path: "/responses",
        body: {
          model,
          instructions: INSTRUCTIONS,
          input: messages.map(({ role, text }) => ({
            type: "message",
            role,
            content: [{ type: role === "user" ? "input_text" : "output_text", text }],
          })),
          stream: true,
          store: false,
          include: ["reasoning.encrypted_content"],
          reasoning: { effort: "high", summary: "auto" },
        },
      };
    case "messages":
      return {
        path: "/messages",
        body: {
          model,
          max_tokens: OUTPUT_TOKENS,
          system: [{ type: "text", text: INSTRUCTIONS }],
          messages: messages.map(({ role, text }) => ({ role, content: [{ type: "text", text }] })),
          stream: true,
          thinking: { type: "adaptive" },
          output_config: { effort: "high" },
        },
      };
    default: {
      const never: never = protocol;
      throw new TypeError(`protocol ${String(never)} is not handled`);
    }
  }
}
