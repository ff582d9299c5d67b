/**
 * One call on its way: the request to the provider, the answer back, byte for byte, each side as fast as the other takes
 * it. It ends once, in one of the ways that `model-call.ts` lists; the first cause wins. It knows no member and keeps
 * nothing: whoever wants to read along is handed the bytes as they pass.
 *
 *   client ──request──▶ relay ──▶ provider         client gone: the answer is read on for its usage, for a limited time,
 *          ◀──answer───       ◀──                  and goes nowhere; a revoke ends both sides at once
 */
import type { ClientRequest, IncomingMessage, OutgoingMessage, ServerResponse } from "node:http";
import { type Clock, watchSilence } from "../../protocol/clock.ts";
import { answerHeaders, requestHeaders } from "./headers.ts";
import type { RelayLimits } from "./limits.ts";
import type { CallOutcome } from "./model-call.ts";
import { type RefusalName, refuse } from "./refusal.ts";
import type { Route } from "./routes.ts";

export interface CallEnd {
  outcome: CallOutcome;
  /** Why, for a log: a code of the system's or a limit's name; empty when all is well. */
  why: string;
  status: number | null;
  firstByteMs: number | null;
  totalMs: number;
  requestBytes: number;
  responseBytes: number;
}

/** Who reads along. None of it may throw. */
export interface CallReaders {
  request(chunk: Buffer): void;
  /** The answer's head, before its first byte. */
  answered(answer: IncomingMessage): void;
  answer(chunk: Buffer): void;
  /** Once. */
  ended(end: CallEnd): void;
}

export interface CallOptions {
  /** Its own id. */
  id: string;
  inbound: IncomingMessage;
  outbound: ServerResponse;
  route: Route;
  /** Path and query below the inlet's base. */
  below: string;
  limits: RelayLimits;
  clock: Clock;
  readers: CallReaders;
  /** The whole body, when it was taken already. */
  body: Buffer | null;
}

export interface Call {
  /** Ends both sides now; nothing more is read. */
  stop(outcome: "revoked" | "cut"): void;
}

export function passCall(options: CallOptions): Call {
  const { id, inbound, outbound, route, limits, clock, readers } = options;
  const { protocol } = route;
  const startedMs = clock.monotonicMs();
  let sentMs = startedMs;
  let answer: IncomingMessage | null = null;
  let upstream: ClientRequest | null = null;
  let isClientGone = false;
  let hasEnded = false;
  let requestBytes = 0;
  let responseBytes = 0;
  let firstByteMs: number | null = null;

  const silence = watchSilence(clock, limits.idleMs, () => giveUp("upstream_silent", "idleMs"));
  const stopTotal = clock.after(limits.totalMs, () => giveUp("call_too_long", "totalMs"));
  let stopDrain: () => void = () => undefined;

  function end(outcome: CallOutcome, why = ""): void {
    if (hasEnded) return;
    hasEnded = true;
    silence.stop();
    stopTotal();
    stopDrain();
    if (answer?.complete !== true || upstream?.writableFinished !== true) upstream?.destroy();
    readers.ended({
      outcome,
      why,
      status: answer?.statusCode ?? (outcome === "refused" ? outbound.statusCode : null),
      firstByteMs,
      totalMs: clock.monotonicMs() - startedMs,
      requestBytes,
      responseBytes,
    });
  }

  /** Before the head of an answer was passed on, the client is told; afterwards it sees that the answer broke off. */
  function stopWith(outcome: CallOutcome, name: RefusalName, message: string, why: string): void {
    if (hasEnded) return;
    if (isClientGone) return end("cancelled", why);
    if (outbound.headersSent) outbound.destroy();
    else {
      refuse(outbound, name, { protocol, message, call: id });
      // What still comes of the request is nobody's; a client that goes on sending is cut off.
      inbound.resume();
      if (!inbound.complete) outbound.once("finish", () => inbound.socket.destroySoon());
    }
    end(outcome, why);
  }

  function giveUp(name: RefusalName, limit: keyof RelayLimits): void {
    stopWith("limit_passed", name, `the call passed the limit ${limit} (${limits[limit]})`, limit);
  }

  function fail(error: Error): void {
    const why = (error as NodeJS.ErrnoException).code ?? error.name;
    if (answer === null)
      stopWith("unreachable", "upstream_unreachable", `the model can't be reached (${why})`, why);
    else stopWith("cut", "upstream_invalid", `the model's answer broke off (${why})`, why);
  }

  // --- the request

  function onRequestBytes(to: ClientRequest, chunk: Buffer): void {
    silence.touch();
    requestBytes += chunk.length;
    if (requestBytes > limits.requestBytes) return giveUp("body_too_large", "requestBytes");
    readers.request(chunk);
    if (!writePiece(to, chunk)) inbound.pause();
  }

  function onRequestEnd(to: ClientRequest): void {
    sentMs = clock.monotonicMs();
    if (inbound.rawTrailers.length > 0) to.addTrailers(pairs(inbound.rawTrailers));
    to.end();
  }

  // --- the answer

  function onAnswer(given: IncomingMessage): void {
    if (hasEnded) return void given.destroy();
    answer = given;
    silence.touch();
    const { statusCode = 0, statusMessage = "" } = given;
    given.on("error", fail);
    readers.answered(given);
    if (!isClientGone) {
      try {
        // To pass such a one on would throw, and end the host with it.
        if (statusCode < 200) throw new RangeError(`the status ${statusCode}`);
        outbound.sendDate = false;
        outbound.writeHead(statusCode, statusMessage, answerHeaders(given.rawHeaders));
        // Not `flushHeaders`, which writes the bytes of a header anew, as UTF-8.
        outbound.write(NO_BYTES);
      } catch (error) {
        const message = `the model's answer can't be passed on: ${error instanceof Error ? error.message : ""}`;
        return stopWith("cut", "upstream_invalid", message, "UPSTREAM_INVALID");
      }
    }
    given.on("data", onAnswerBytes);
    given.once("end", () => onAnswerEnd(given));
    given.once("close", () => {
      if (!given.complete) fail(Object.assign(new Error("cut"), { code: "UPSTREAM_CUT" }));
    });
  }

  function onAnswerBytes(chunk: Buffer): void {
    if (hasEnded) return;
    silence.touch();
    firstByteMs ??= clock.monotonicMs() - sentMs;
    responseBytes += chunk.length;
    readers.answer(chunk);
    if (responseBytes > limits.answerBytes) return giveUp("upstream_invalid", "answerBytes");
    if (!isClientGone && !writePiece(outbound, chunk)) answer?.pause();
  }

  function onAnswerEnd(given: IncomingMessage): void {
    if (!given.complete || hasEnded) return;
    if (isClientGone) return end("cancelled");
    silence.touch();
    if (given.rawTrailers.length > 0) outbound.addTrailers(pairs(given.rawTrailers));
    outbound.end();
  }

  // --- the client

  function onClientGone(): void {
    if (hasEnded) return;
    if (outbound.writableFinished) return end("completed");
    isClientGone = true;
    silence.stop();
    stopTotal();
    // What was not asked whole is not answered, and an answer that is whole has nothing more to say.
    const isAsked = inbound.complete && upstream?.writableEnded === true;
    if (!isAsked || answer?.complete === true || limits.drainMs === 0) return end("cancelled");
    stopDrain = clock.after(limits.drainMs, () => end("cancelled", "drainMs"));
    answer?.resume();
  }

  function open(): void {
    inbound.on("error", () => undefined /* its close is looked at */);
    outbound.on("error", () => undefined);
    outbound.once("finish", () => end("completed"));
    outbound.once("close", onClientGone);
    outbound.on("drain", () => {
      silence.touch();
      answer?.resume();
    });
    const method = inbound.method ?? "GET";
    let made: ClientRequest;
    try {
      made = route.upstream.request({
        method,
        path: route.pathOf(options.below),
        headers: requestHeaders(inbound.rawHeaders, {
          host: route.upstream.base.host,
          method,
          own: route.headers,
        }),
        headerBytes: limits.headerBytes,
      });
    } catch (error) {
      const message = `this request can't be passed on: ${error instanceof Error ? error.message : ""}`;
      return stopWith("refused", "request_invalid", message, "REQUEST_INVALID");
    }
    upstream = made;
    // No limit on their number beside the one on their bytes: node would leave out what is beyond.
    made.maxHeadersCount = 0;
    made.on("error", fail);
    made.once("response", onAnswer);
    made.once("close", () => {
      if (answer === null) fail(new Error("closed without an answer"));
    });
    made.on("continue", () => {
      if (!isClientGone && !outbound.headersSent && inbound.headers.expect !== undefined)
        outbound.writeContinue();
    });
    made.on("information", ({ statusCode }) => {
      if (statusCode === 102 && !isClientGone && !outbound.headersSent) outbound.writeProcessing();
    });
    if (options.body !== null) {
      if (options.body.length > 0) onRequestBytes(made, options.body);
      return onRequestEnd(made);
    }
    made.on("drain", () => inbound.resume());
    inbound.on("data", (chunk: Buffer) => {
      if (!hasEnded) onRequestBytes(made, chunk);
    });
    inbound.once("end", () => {
      if (!hasEnded) onRequestEnd(made);
    });
  }

  open();
  return {
    stop(outcome) {
      if (hasEnded) return;
      end(outcome, "STOPPED");
      if (!isClientGone) outbound.destroy();
    },
  };
}

/** A request that announces more than may come is refused before anything of it goes out. */
export function announcesTooMuch(inbound: IncomingMessage, limits: RelayLimits): boolean {
  return Number(inbound.headers["content-length"] ?? 0) > limits.requestBytes;
}

const NO_BYTES = Buffer.alloc(0);

/** As a piece of its own where the body is chunked: node would join what is written within one turn of its loop. */
function writePiece(to: OutgoingMessage, chunk: Buffer): boolean {
  const { socket } = to;
  socket?.cork();
  process.nextTick(() => socket?.uncork());
  return to.write(chunk);
}

function pairs(raw: readonly string[]): Array<[string, string]> {
  return raw.flatMap((name, at) => (at % 2 === 0 ? [[name, raw[at + 1] ?? ""] as [string, string]] : []));
}
