/**
 * The model relay of a host: takes what the bridges' inlets pipe to the sandboxes' Unix sockets, finds out whose it is,
 * puts the route's key in the place of the token, and passes everything else on unchanged. It edits no body, tries
 * nothing again, and keeps a record of each call that it passed on.
 *
 *   socket of a sandbox ─▶ token: which member ─▶ its route ─▶ call.ts, read along by call-record.ts ─▶ record
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../../protocol/clock.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import type { ModelCaller } from "../../protocol/model-token.ts";
import { decodeBody } from "./body-decoder.ts";
import { announcesTooMuch, type Call, type CallReaders, passCall } from "./call.ts";
import { type CallRecord, readCall } from "./call-record.ts";
import { protocolOfPath } from "./key-header.ts";
import { checkedLimits, type RelayLimits } from "./limits.ts";
import { mayCost, wholeBody } from "./metered-body.ts";
import { tokenOf } from "./model-token.ts";
import { type CallBook, createRecordQueue } from "./record-queue.ts";
import { type RefusalName, rawRefusal, refuse } from "./refusal.ts";
import { digestRequest } from "./request-digest.ts";
import { openRoutes, type RelayOptions, type Route } from "./routes.ts";
import { estimateTokens } from "./token-estimate.ts";

/** What the CLI's base URL ends in; the rest of its path goes behind the provider's. */
const INLET_PREFIX = "/v1";
/** Connections of one sandbox at once, as many as its bridge's inlet takes. */
const CONNECTIONS = 256;
/** An unused connection of a CLI stays this long: it is the CLI's to let go of. */
const UNUSED_MS = 120_000;

/** What the relay must know of a sandbox. */
export interface RelayDoor {
  sandbox: string;
  /** Whose the token is, when that process may ask now. */
  callerOf(token: string | null): ModelCaller | null;
  /** Whether that process may still ask. */
  mayCall(caller: ModelCaller): boolean;
  /** The member as it is now. */
  standing(member: string): CallerStanding | null;
}

export interface CallerStanding {
  protocol: ModelProtocol;
  /** Name of the route that the member wants; undefined for its protocol's. */
  route: string | undefined;
  /** Its active turn, and its native session, as far as they are known. */
  turn: string | null;
  nativeId: string | null;
}

export interface ServedDoor {
  /** Ends the calls of processes that may not ask any more. */
  recheck(): void;
  /** Ends all calls now. */
  cut(): void;
}

export interface Relay {
  /** Serves a sandbox's socket; closing the server ends that. */
  serve(server: Server, door: RelayDoor): ServedDoor;
  /** For the server of such a socket. */
  readonly headerBytes: number;
  /** Resolves when the records of all ended calls are made. */
  settled(): Promise<void>;
  close(): void;
}

export interface RelayPorts {
  clock: Clock;
  variables: Readonly<NodeJS.ProcessEnv>;
  /** Where calls are recorded and budgets kept. What it throws is told as a warning. */
  calls(): CallBook;
  onWarning(what: string, detail: string): void;
}

/** Throws REQUEST_INVALID for routes or limits that can't be. */
export function openRelay(options: RelayOptions, ports: RelayPorts): Relay {
  const limits: RelayLimits = checkedLimits(options.limits);
  const routes = openRoutes(options, ports.variables);
  const { clock } = ports;
  const records = createRecordQueue(ports.calls, (call, why) =>
    ports.onWarning("a model call is not recorded", `${call.id}: ${why}`),
  );

  function tellFault({ id, route, outcome }: CallRecord, why: string): void {
    if (outcome === "unreachable" || outcome === "cut" || outcome === "limit_passed")
      ports.onWarning(`a model call ended as ${outcome}`, `${id}, route ${route}: ${why}`);
  }

  /** Whose the call is, and where it goes; or why it goes nowhere. */
  function admit(door: RelayDoor, inbound: IncomingMessage): Admitted | Refused {
    const path = inbound.url ?? "/";
    const below = path.startsWith(`${INLET_PREFIX}/`) ? path.slice(INLET_PREFIX.length) : null;
    const asked = below === null ? null : protocolOfPath(below);
    const no = (name: RefusalName, message: string, protocol = asked): Refused => ({
      name,
      message,
      protocol,
    });
    // Also what a CLI asks of its provider's host beside the API: Claude Code's `HEAD /api/hello` at start goes on well
    // without an answer (measured), and the key has no business there.
    if (below === null) return no("path_unknown", "there is no such path at the model's inlet");
    const caller = door.callerOf(tokenOf(inbound.headers));
    const standing = caller === null ? null : door.standing(caller.member);
    if (caller === null || standing === null)
      return no("token_refused", "this token is no running process's of this sandbox");
    const route = routes.of(standing.protocol, standing.route);
    if (route === null)
      return no("route_missing", "this host has no route to the member's model", standing.protocol);
    if (asked !== null && asked !== route.protocol)
      return no("path_unknown", `the member's model speaks ${route.protocol}, and not what this path is of`);
    if (announcesTooMuch(inbound, limits))
      return no("body_too_large", `a request may have ${limits.requestBytes} bytes`, route.protocol);
    return { below, caller, standing, route };
  }

  function serve(server: Server, door: RelayDoor): ServedDoor {
    /** What each connection is answered last. */
    const answering = new WeakMap<Duplex, ServerResponse>();
    const calls = new Set<{ call: Call | null; caller: ModelCaller }>();

    function take(inbound: IncomingMessage, outbound: ServerResponse): void {
      answering.set(inbound.socket, outbound);
      const id = randomUUID();
      const admitted = admit(door, inbound);
      if ("name" in admitted) {
        const { name, ...told } = admitted;
        return refuse(outbound, name, { ...told, call: id });
      }
      const { caller, route, below } = admitted;
      const isMetered =
        mayCost(route.protocol, inbound.method ?? "", below) &&
        ports.calls().budgets.of(caller.member) !== null;
      if (!isMetered) return pass(id, inbound, outbound, admitted, null);
      if (inbound.headers.expect !== undefined) outbound.writeContinue();
      void wholeBody(inbound, limits, clock).then((body) => meter(id, inbound, outbound, admitted, body));
    }

    /** The reservation is durable before a byte goes out; what can't be reserved is not sent. */
    function meter(
      id: string,
      inbound: IncomingMessage,
      outbound: ServerResponse,
      admitted: Admitted,
      body: Buffer | RefusalName | null,
    ): void {
      const { caller, route, standing } = admitted;
      const no = (name: RefusalName, message: string) =>
        refuse(outbound, name, { protocol: route.protocol, message, call: id });
      if (body === null || outbound.destroyed) return;
      if (typeof body === "string") return no(body, "the request passed a limit of the relay's");
      // It may have ended meanwhile.
      if (!door.mayCall(caller))
        return no("token_refused", "this token is no running process's of this sandbox");
      // Nobody could say what a body holds that can't be unfolded; its unfolded size has the same limit.
      const plain = decodeBody(inbound.headers["content-encoding"] ?? null, body, limits.requestBytes);
      if (plain === null)
        return no("request_invalid", "a body of this coding can't be read, and its member has a budget");
      let isReserved = false;
      try {
        isReserved = ports.calls().budgets.reserve(id, caller.member, estimateTokens(plain), {
          nativeId: standing.nativeId,
          digest: digestRequest(route.protocol, inbound.headers, body),
        });
      } catch (error) {
        ports.onWarning("a budget can't be reserved", error instanceof Error ? error.message : String(error));
      }
      if (!isReserved)
        return no("budget_exhausted", "the member's budget of tokens does not hold this request");
      pass(id, inbound, outbound, admitted, body);
    }

    function pass(
      id: string,
      inbound: IncomingMessage,
      outbound: ServerResponse,
      admitted: Admitted,
      body: Buffer | null,
    ): void {
      const { below, caller, standing, route } = admitted;
      const { turn, nativeId } = standing;
      const subject = { id, sandbox: door.sandbox, caller, turn, nativeId, route, startedAt: clock.nowAt() };
      records.expect();
      const readers = readCall(subject, inbound, below, (call, digest, { why }) => {
        records.take(call, digest);
        tellFault(call, why);
      });
      const running = { call: null as Call | null, caller };
      calls.add(running);
      const ended: CallReaders["ended"] = (end) => {
        calls.delete(running);
        readers.ended(end);
      };
      const options = { id, inbound, outbound, route, below, limits, clock, body };
      running.call = passCall({ ...options, readers: { ...readers, ended } });
    }

    server.maxConnections = CONNECTIONS;
    server.maxHeadersCount = 0;
    // The limits on a call's time are the relay's own.
    server.requestTimeout = 0;
    server.keepAliveTimeout = UNUSED_MS;
    server.on("request", take);
    server.on("checkContinue", take);
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      const answer = answering.get(socket);
      // In the middle of an answer there is no room for another one.
      const isAnswering = answer?.headersSent === true && !answer.writableFinished;
      if (!socket.writable || isAnswering) return void socket.destroy();
      const isTooLarge = error.code === "HPE_HEADER_OVERFLOW";
      socket.end(
        isTooLarge
          ? rawRefusal("headers_too_large", `the headers may have ${limits.headerBytes} bytes`)
          : rawRefusal("request_invalid", "this is no request of HTTP/1.1"),
      );
    });
    return {
      recheck() {
        for (const { call, caller } of [...calls]) if (!door.mayCall(caller)) call?.stop("revoked");
      },
      cut() {
        for (const { call } of [...calls]) call?.stop("cut");
      },
    };
  }

  return {
    serve,
    headerBytes: limits.headerBytes,
    settled: records.settled,
    close: () => routes.close(),
  };
}

interface Admitted {
  below: string;
  caller: ModelCaller;
  standing: CallerStanding;
  route: Route;
}

interface Refused {
  name: RefusalName;
  message: string;
  protocol: ModelProtocol | null;
}
