/**
 * Which headers pass the relay: all but those of one connection and credentials, in the order and the spelling in which
 * they came, repeated ones included. Pure.
 */
import { KEY_HEADERS } from "./key-header.ts";

/** Name, value, name, value, …, as node gives what came. */
export type RawHeaders = readonly string[];

/** Headers of one connection (RFC 9110, 7.6.1), beside those that its `connection` header names. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/** Of a provider's answer. */
export function answerHeaders(raw: RawHeaders): string[] {
  return passing(raw, new Set());
}

/**
 * Of a client's request: `host` is the provider's, in its place; keys of the client's stay here.
 * @param own headers of the route, its key among them; each takes the place of the client's of that name
 */
export function requestHeaders(
  raw: RawHeaders,
  options: { host: string; method: string; own: Readonly<Record<string, string>> },
): string[] {
  const own = Object.entries(options.own);
  const dropped = new Set([...KEY_HEADERS, ...own.map(([name]) => name.toLowerCase())]);
  const headers = passing(raw, dropped);
  const names = new Set<string>();
  for (let at = 0; at < headers.length; at += 2) {
    const name = (headers[at] ?? "").toLowerCase();
    if (name === "host") headers[at + 1] = options.host;
    names.add(name);
  }
  if (!names.has("host")) headers.unshift("Host", options.host);
  headers.push(...own.flat());
  // How the body ends is told to the next hop anew, and as it was told to this one.
  if (isChunked(raw)) headers.push("Transfer-Encoding", "chunked");
  else if (!names.has("content-length") && /^(POST|PUT|PATCH)$/.test(options.method))
    headers.push("Content-Length", "0");
  return headers;
}

function isChunked(raw: RawHeaders): boolean {
  return raw.some((name, at) => at % 2 === 0 && name.toLowerCase() === "transfer-encoding");
}

/** What no `connection` header can take away: a body without its length would end where its sender says. */
const KEPT: ReadonlySet<string> = new Set(["content-length", "host"]);

function passing(raw: RawHeaders, dropped: ReadonlySet<string>): string[] {
  const listed = new Set<string>();
  for (let at = 0; at < raw.length; at += 2)
    if (raw[at]?.toLowerCase() === "connection")
      for (const name of (raw[at + 1] ?? "").split(",")) listed.add(name.trim().toLowerCase());
  for (const name of KEPT) listed.delete(name);
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? "").toLowerCase();
    if (!HOP_BY_HOP.has(name) && !listed.has(name) && !dropped.has(name))
      kept.push(raw[at] ?? "", raw[at + 1] ?? "");
  }
  return kept;
}
