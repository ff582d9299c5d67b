/** In which header each model protocol carries the provider's key. Pure; the key itself is never told or logged. */
import type { ModelProtocol } from "../../protocol/model-protocol.ts";

/** Headers in which a client may send a key of its own: none of them leaves the host. Lower case. */
export const KEY_HEADERS = ["authorization", "x-api-key", "api-key", "proxy-authorization"] as const;

/**
 * The header for the key, or none for a model that needs no key. OpenAI's protocols take a bearer token; Anthropic's takes
 * `x-api-key` (a bearer token there is another kind of credential).
 */
export function keyHeader(protocol: ModelProtocol, key: string | null): Record<string, string> {
  if (key === null) return {};
  switch (protocol) {
    case "messages":
      return { "x-api-key": key };
    case "chat-completions":
    case "responses":
      return { authorization: `Bearer ${key}` };
    default: {
      const never: never = protocol;
      throw new TypeError(`protocol ${String(never)} has no header`);
    }
  }
}

/**
 * The protocol of a request, by its path below the base URL: `/messages` and what lies below it (`/messages/count_tokens`)
 * is Anthropic's, `/responses` and `/chat/completions` are OpenAI's. Null for what none of them owns, such as `/models`.
 */
export function protocolOfPath(path: string): ModelProtocol | null {
  if (/^\/messages(?=[/?]|$)/.test(path)) return "messages";
  if (/^\/responses(?=[/?]|$)/.test(path)) return "responses";
  return /^\/chat\/completions(?=[/?]|$)/.test(path) ? "chat-completions" : null;
}
