/**
 * The way from the host to a provider: connections that are kept, certificates that are verified, a company's own
 * authority and proxy where they are named. Neither of these two is ever used for an address on loopback.
 */
import { readFileSync } from "node:fs";
import { type ClientRequest, Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { getCACertificates } from "node:tls";
import { HoldfastError } from "../../protocol/errors.ts";

export interface UpstreamOptions {
  /** PEM file of authorities that are trusted beside the built-in ones. Read once. */
  caFile?: string;
  /** `http://` or `https://` address of a proxy: asked by CONNECT for https, with the whole address for http. */
  proxy?: string;
}

interface UpstreamRequest {
  method: string;
  /** Path and query, as they go out. */
  path: string;
  /** Raw, the `host` among them; one that is not there is not added. */
  headers: string[];
  /** Of the answer's headers. */
  headerBytes: number;
}

export interface Upstream {
  readonly base: URL;
  /** Throws for what no request can carry. */
  request(options: UpstreamRequest): ClientRequest;
  /** Lets go of connections that nobody uses. */
  close(): void;
}

/** An unused connection is let go of after this, or earlier when the provider says so. */
const UNUSED_MS = 30_000;

/** Throws REQUEST_INVALID. */
export function openUpstream(base: URL, { caFile, proxy }: UpstreamOptions): Upstream {
  const throughProxy = proxy === undefined || isLoopback(base.hostname) ? undefined : checkedProxy(proxy);
  const shared = {
    keepAlive: true,
    timeout: UNUSED_MS,
    ...(throughProxy === undefined
      ? {}
      : { proxyEnv: { HTTP_PROXY: throughProxy, HTTPS_PROXY: throughProxy } }),
  };
  const isSecure = base.protocol === "https:";
  const ca = caFile === undefined ? {} : { ca: [...getCACertificates("default"), readAuthorities(caFile)] };
  const agent = isSecure ? new HttpsAgent({ ...shared, ...ca }) : new HttpAgent(shared);
  const send = isSecure ? httpsRequest : httpRequest;
  // A tunnel's credentials node sends by itself; with raw headers it leaves those of an http request to us.
  const proxyHeaders = throughProxy === undefined || isSecure ? [] : proxyCredentials(new URL(throughProxy));
  return {
    base,
    request({ headerBytes, headers, ...call }) {
      return send({
        ...call,
        headers: [...headers, ...proxyHeaders],
        agent,
        protocol: base.protocol,
        // An IPv6 address stands in brackets in a URL, and without them everywhere else.
        hostname: base.hostname.replace(/^\[|\]$/g, ""),
        port: base.port,
        maxHeaderSize: headerBytes,
      });
    },
    close: () => agent.destroy(),
  };
}

export function isLoopback(hostname: string): boolean {
  return /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[?::1\]?|\[?::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]?)$/i.test(
    hostname,
  );
}

function checkedProxy(proxy: string): string {
  const url = URL.parse(proxy);
  // The address itself may hold a password.
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === "")
    throw new HoldfastError("REQUEST_INVALID", "the proxy is no http or https address");
  return url.href;
}

function proxyCredentials({ username, password }: URL): string[] {
  if (username === "") return [];
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return ["Proxy-Authorization", `Basic ${Buffer.from(pair).toString("base64")}`];
}

function readAuthorities(path: string): string {
  const refuse = (why: string, cause?: unknown) =>
    new HoldfastError("REQUEST_INVALID", `the file of authorities ${path} ${why}`, { cause });
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw refuse("can't be read", error);
  }
  if (!text.includes("-----BEGIN CERTIFICATE-----")) throw refuse("holds no certificate in PEM form");
  return text;
}
