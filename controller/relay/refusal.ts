/**
 * What the relay itself refuses, and how it says so: in the error shape of the protocol that the client speaks, so that a
 * CLI reads it as it reads its provider's. A provider's own errors never pass through here.
 */
import type { ServerResponse } from "node:http";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";

interface Row {
  status: number;
  /** `error.type` of Anthropic's shape, and of OpenAI's. */
  messages: string;
  openai: string;
  /** `error.code` of OpenAI's shape. */
  code: string;
}

const row = (status: number, messages: string, openai: string, code: string): Row => ({
  status,
  messages,
  openai,
  code,
});

/** By name; which status a client takes for passing, and tries again by itself, is the protocols' own custom. */
export const REFUSALS = {
  /** No path below `/v1/`, or one of another protocol than the member's route. */
  path_unknown: row(404, "not_found_error", "invalid_request_error", "holdfast_path_unknown"),
  /** No token of a running process of this sandbox. */
  token_refused: row(401, "authentication_error", "invalid_request_error", "invalid_api_key"),
  /** This host has no route for the member. */
  route_missing: row(404, "not_found_error", "invalid_request_error", "holdfast_route_missing"),
  /**
   * The member's budget does not hold this call. The pinned CLIs end their turn by a 400 at once; a 403 Codex tries again
   * for 25 s (measured).
   */
  budget_exhausted: row(400, "invalid_request_error", "insufficient_quota", "holdfast_budget_exhausted"),
  headers_too_large: row(431, "invalid_request_error", "invalid_request_error", "holdfast_headers_too_large"),
  body_too_large: row(413, "request_too_large", "invalid_request_error", "holdfast_body_too_large"),
  request_invalid: row(400, "invalid_request_error", "invalid_request_error", "holdfast_request_invalid"),
  upstream_unreachable: row(502, "api_error", "server_error", "holdfast_upstream_unreachable"),
  /** What came is no answer that could be passed on. */
  upstream_invalid: row(502, "api_error", "server_error", "holdfast_upstream_invalid"),
  upstream_silent: row(504, "timeout_error", "server_error", "holdfast_upstream_silent"),
  call_too_long: row(504, "timeout_error", "server_error", "holdfast_call_too_long"),
} as const satisfies Record<string, Row>;
export type RefusalName = keyof typeof REFUSALS;

/** @param protocol null when the path tells none: then one body that the clients of all three read */
export function refusalBody(
  name: RefusalName,
  options: { protocol: ModelProtocol | null; message: string; call: string | null },
): string {
  const { protocol, message, call } = options;
  const { messages, openai, code } = REFUSALS[name];
  switch (protocol) {
    case "messages":
      return JSON.stringify({ type: "error", error: { type: messages, message }, request_id: call });
    case "chat-completions":
    case "responses":
      return JSON.stringify({ error: { message, type: openai, param: null, code } });
    case null:
      return JSON.stringify({ type: "error", error: { message, type: messages, code } });
    default: {
      const never: never = protocol;
      throw new TypeError(`protocol ${String(never)} has no error shape`);
    }
  }
}

/** Refuses a call of which nothing has been answered yet. */
export function refuse(
  outbound: ServerResponse,
  name: RefusalName,
  options: { protocol: ModelProtocol | null; message: string; call: string | null },
): void {
  const body = refusalBody(name, options);
  outbound.writeHead(REFUSALS[name].status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  outbound.end(body);
}

/** The same, on a connection whose request could not even be read. */
export function rawRefusal(name: RefusalName, message: string): string {
  const body = refusalBody(name, { protocol: null, message, call: null });
  const { status } = REFUSALS[name];
  const lines = [
    `HTTP/1.1 ${status} Refused`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}
