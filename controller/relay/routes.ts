/**
 * The host's routes to its models: where each goes, with which key, and which one a member takes. What a sandbox knows of
 * all this is nothing.
 */
import { validateHeaderName, validateHeaderValue } from "node:http";
import { HoldfastError } from "../../protocol/errors.ts";
import { OurId } from "../../protocol/ids.ts";
import { ModelProtocol } from "../../protocol/model-protocol.ts";
import { KEY_HEADERS, keyHeader } from "./key-header.ts";
import { type KeySource, readKey } from "./key-source.ts";
import type { RelayLimits } from "./limits.ts";
import { openUpstream, type Upstream, type UpstreamOptions } from "./upstream.ts";

export interface RelayRoute {
  /** Its name among the host's routes: 1 to 128 of `A-Za-z0-9_.-`. */
  name: string;
  /** What it speaks. */
  protocol: ModelProtocol;
  /** Base URL as the provider gives it, e.g. `https://api.example.com/v1`: an address alone, without query or password. */
  baseUrl: string;
  /** Goes into the header of the protocol (`key-header.ts`). Read when the host opens; never logged. */
  key: KeySource;
  /** Sent with each call, in the place of the client's of the same name. No header of a key or of a connection. */
  headers?: Readonly<Record<string, string>>;
}

export interface RelayOptions {
  /** A member takes the one that it names, or else the first of its protocol. [] for a host that sends nothing to a model. */
  routes: readonly RelayRoute[];
  /** Default: see there. */
  limits?: Partial<RelayLimits>;
  /** A company's own authority and proxy on the way to the providers; never used for loopback. */
  upstream?: UpstreamOptions;
}

/** A route that can be taken. */
export interface Route {
  readonly name: string;
  readonly protocol: ModelProtocol;
  readonly upstream: Upstream;
  /** Its own headers, the key's among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Path at the provider of one below the inlet's base. */
  pathOf(below: string): string;
}

export interface Routes {
  /** The route of that name, or the first of the protocol; null when there is none, or it speaks another protocol. */
  of(protocol: ModelProtocol, name: string | undefined): Route | null;
  close(): void;
}

/** The same provider under each of its protocols, for one that speaks them all. */
export function everyProtocol(route: Omit<RelayRoute, "name" | "protocol">): RelayRoute[] {
  return ModelProtocol.options.map((protocol) => ({ ...route, name: protocol, protocol }));
}

/** Throws REQUEST_INVALID for a route that no call could take. */
export function openRoutes(options: RelayOptions, variables: Readonly<NodeJS.ProcessEnv>): Routes {
  const routes: Route[] = [];
  for (const given of options.routes) {
    if (!OurId.safeParse(given.name).success)
      throw new HoldfastError("REQUEST_INVALID", `${given.name} can't be the name of a route`);
    if (routes.some(({ name }) => name === given.name))
      throw new HoldfastError("REQUEST_INVALID", `two routes are called ${given.name}`);
    routes.push(openRoute(given, options.upstream ?? {}, variables));
  }
  return {
    of(protocol, name) {
      const found = routes.find((route) =>
        name === undefined ? route.protocol === protocol : route.name === name,
      );
      return found?.protocol === protocol ? found : null;
    },
    close() {
      for (const { upstream } of routes) upstream.close();
    },
  };
}

function openRoute(
  given: RelayRoute,
  upstream: UpstreamOptions,
  variables: Readonly<NodeJS.ProcessEnv>,
): Route {
  const { name, protocol } = given;
  const base = checkedBase(given.baseUrl);
  const key = keyHeader(protocol, readKey(given.key, variables));
  const prefix = base.pathname.replace(/\/$/, "");
  return {
    name,
    protocol,
    upstream: openUpstream(base, upstream),
    headers: { ...checkedHeaders(given.headers ?? {}), ...key },
    pathOf: (below) => prefix + below,
  };
}

/** The base, when requests to it can be made at all. Throws REQUEST_INVALID, in which no password is told. */
export function checkedBase(baseUrl: string): URL {
  const base = URL.parse(baseUrl);
  if (base === null || !["http:", "https:"].includes(base.protocol))
    throw new HoldfastError("REQUEST_INVALID", "the model's base URL is no http or https address");
  if (base.username !== "" || base.password !== "" || base.search !== "" || base.hash !== "")
    throw new HoldfastError(
      "REQUEST_INVALID",
      `the model's base URL is an address alone (${base.origin}${base.pathname}): a key has a place of its own`,
    );
  return base;
}

/** Headers that are the relay's alone. */
const NOT_OF_A_ROUTE: ReadonlySet<string> = new Set([
  ...KEY_HEADERS,
  "connection",
  "content-length",
  "host",
  "transfer-encoding",
]);

function checkedHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(headers)) {
    try {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    } catch (cause) {
      throw new HoldfastError("REQUEST_INVALID", `a route's header ${name} can't be sent`, { cause });
    }
    if (NOT_OF_A_ROUTE.has(name.toLowerCase()))
      throw new HoldfastError("REQUEST_INVALID", `a route can't have a header ${name} of its own`);
  }
  return headers;
}
