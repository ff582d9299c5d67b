/**
 * One HTTP request to a model, straight or through an HTTP proxy: TLS to the model is verified in both cases, and a proxy sees
 * no more of it than the host's name. Node's own proxy agent is not used: a tunnel that a silent proxy never opens can't be
 * given up there (measured on Node 24.22: the socket stays until its own limit and keeps the process alive).
 */
import { type ClientRequest, request as httpRequest, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { connect as tlsConnect } from "node:tls";

export interface Dial {
  url: URL;
  /** Null: no proxy. An `http:` address. */
  proxy: URL | null;
  method: "GET" | "POST";
  headers: Readonly<Record<string, string>>;
  body: string;
  /** Ends it at any point; nothing is left open then. */
  signal: AbortSignal;
}

/** The way ended at the proxy: it refused, or can't be reached. */
export class ProxyRefusal extends Error {
  override readonly name = "ProxyRefusal";
}

/** Resolves with the request as soon as it is on its way to the model's side; its answer and its errors are the caller's. */
export async function dial(options: Dial): Promise<ClientRequest> {
  const { url, proxy, method, signal } = options;
  // A request that is made with it would tell its error before anybody can listen.
  signal.throwIfAborted();
  const headers = { ...options.headers, host: url.host, "content-length": Buffer.byteLength(options.body) };
  const common: RequestOptions = { agent: false, method, headers, signal };
  const isTls = url.protocol === "https:";
  const path = `${url.pathname}${url.search}`;
  const target = { ...common, hostname: bare(url), port: url.port, path };
  if (proxy === null) return isTls ? httpsRequest(target) : httpRequest(target);
  // A proxy takes a plain request by its whole address.
  if (!isTls) return httpRequest({ ...common, hostname: bare(proxy), port: proxy.port, path: url.href });
  const tunnel = await openTunnel(url, proxy, signal);
  const request = httpsRequest({
    ...target,
    createConnection: () => tlsConnect({ socket: tunnel, host: bare(url), ...serverName(url) }),
  });
  // TLS that fails leaves the connection below it open (measured).
  return request.once("close", () => tunnel.destroy());
}

function openTunnel(url: URL, proxy: URL, signal: AbortSignal): Promise<Socket> {
  const place = `${url.hostname}:${url.port === "" ? 443 : url.port}`;
  return new Promise((resolve, reject) => {
    const asked = httpRequest({
      agent: false,
      method: "CONNECT",
      hostname: bare(proxy),
      port: proxy.port,
      path: place,
      headers: { host: place },
      signal,
    });
    asked.once("connect", ({ statusCode = 0 }, socket) => {
      if (statusCode >= 200 && statusCode < 300) return resolve(socket as Socket);
      socket.destroy();
      reject(new ProxyRefusal(`the proxy refuses the way (status ${statusCode})`));
    });
    asked.once("error", (error: NodeJS.ErrnoException) =>
      reject(
        error.name === "AbortError"
          ? error
          : new ProxyRefusal(`the proxy ${proxy.host} can't be reached (${error.code ?? error.message})`),
      ),
    );
    asked.end();
  });
}

/** An IPv6 address stands in brackets in a URL, and without them everywhere else. */
function bare(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, "");
}

/** A name is sent for the certificate to be chosen by; an address may not be. */
function serverName(url: URL): { servername?: string } {
  return /^[\d.]+$|:/.test(bare(url)) ? {} : { servername: url.hostname };
}
