/**
 * The way to the model on the host's side: takes what the bridge's inlet pipes to the Unix socket, puts the real key in
 * the place of the process's token, and passes everything else on, byte for byte, both ways. It never edits a body, never
 * tries again. (Accounting, attribution and limits belong to the relay that grows here.)
 */
import {
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline } from "node:stream";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ModelCaller } from "../../protocol/model-token.ts";
import { KEY_HEADERS, keyHeader, protocolOfPath } from "./key-header.ts";
import { tokenOf } from "./model-token.ts";

export interface ModelRoute {
  /** Base URL as the provider gives it, e.g. `https://api.example.com/v1`. */
  baseUrl: string;
  /** Sent in the header of the request's protocol (`key-header.ts`); null for a model that needs none. Never logged. */
  key: string | null;
}

/** What the CLI's base URL ends in; the rest of its path goes behind the provider's. */
const INLET_PREFIX = "/v1";

/** Headers that belong to one connection, and those that the host sets. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "host",
  ...KEY_HEADERS,
]);

/**
 * Serves the route on a server that listens already. Closing the server ends it. Throws REQUEST_INVALID for a route that
 * no request could take.
 * @param callerOf whose a request's token is; null for one that may not ask
 */
export function forwardTo(
  server: Server,
  route: ModelRoute,
  callerOf: (token: string | null) => ModelCaller | null,
): void {
  const base = checkedBase(route);
  const send = base.protocol === "https:" ? httpsRequest : httpRequest;

  server.on("request", (inbound: IncomingMessage, outbound: ServerResponse) => {
    const path = inbound.url ?? "/";
    // Also what a CLI asks of its provider's host beside the API: Claude Code's `HEAD /api/hello` at start goes on well
    // without an answer (measured), and the key has no business there.
    if (!path.startsWith(`${INLET_PREFIX}/`))
      return refuse(outbound, 404, "there is no such path at the model's inlet");
    if (callerOf(tokenOf(inbound.headers)) === null)
      return refuse(outbound, 401, "this token is no running process's of this sandbox");
    const below = path.slice(INLET_PREFIX.length);
    const upstream = send(
      {
        protocol: base.protocol,
        // An IPv6 address stands in brackets in a URL, and without them everywhere else.
        hostname: base.hostname.replace(/^\[|\]$/g, ""),
        port: base.port,
        method: inbound.method,
        path: base.pathname.replace(/\/$/, "") + below,
        headers: upstreamHeaders(inbound, base, keyHeader(protocolOfPath(below), route.key)),
      },
      (answer) => {
        const { statusCode = 0 } = answer;
        // To pass such a one on would throw, and end the host with it.
        if (statusCode < 200) {
          answer.destroy();
          return refuse(outbound, 502, `the model answered with the status ${statusCode}`);
        }
        outbound.writeHead(statusCode, endToEnd(answer.headers));
        outbound.flushHeaders();
        pipeline(answer, outbound, (error) => {
          // A provider's reset must reach the CLI as one, and not as an orderly end.
          if (error !== undefined && error !== null) outbound.destroy();
        });
      },
    );
    upstream.once("error", (error) => {
      if (outbound.headersSent) outbound.destroy();
      else
        refuse(
          outbound,
          502,
          `the model can't be reached (${(error as NodeJS.ErrnoException).code ?? "error"})`,
        );
    });
    outbound.once("close", () => {
      if (!outbound.writableFinished) upstream.destroy();
    });
    pipeline(inbound, upstream, (error) => {
      if (error !== undefined && error !== null) upstream.destroy();
    });
  });
}

/** The route's base, when requests to it can be made at all. The key is not told. */
export function checkedBase(route: ModelRoute): URL {
  const base = URL.parse(route.baseUrl);
  if (base === null || !["http:", "https:"].includes(base.protocol))
    throw new HoldfastError("REQUEST_INVALID", "the model's base URL is no http or https address");
  // Visible ASCII: anything else makes each single request throw.
  if (route.key !== null && !/^[!-~]+$/.test(route.key))
    throw new HoldfastError("REQUEST_INVALID", "the model's key has characters that no header can carry");
  return base;
}

function upstreamHeaders(
  inbound: IncomingMessage,
  base: URL,
  key: Readonly<Record<string, string>>,
): OutgoingHttpHeaders {
  return {
    ...endToEnd(inbound.headers),
    // Without it the client below frames a body of some methods (DELETE) not at all.
    ...(inbound.headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
    host: base.host,
    ...key,
  };
}

function endToEnd(headers: IncomingMessage["headers"]): OutgoingHttpHeaders {
  const listed = (headers.connection ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim());
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !NOT_FORWARDED.has(name) && !listed.includes(name)),
  );
}

/** An answer of our own, in a shape that the clients of all three protocols read. */
function refuse(outbound: ServerResponse, status: number, message: string): void {
  outbound.writeHead(status, { "content-type": "application/json" });
  const error = { message, type: "holdfast_relay", code: "holdfast_relay" };
  outbound.end(JSON.stringify({ type: "error", error }));
}
