/**
 * One call of the preflight: sends it, reads the streamed answer, and says how it went. Every wait has a limit with a name and
 * ends with the caller's signal; the first cause wins. No redirect is followed and nothing is tried again: a call that failed
 * has failed.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import * as z from "zod/mini";
import { type Clock, type SilenceWatch, watchSilence } from "../../protocol/clock.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { parsedJson } from "../parsed-json.ts";
import { keyHeader } from "../relay/key-header.ts";
import { type Answer, createAnswerReader } from "./answer-reader.ts";
import { dial, ProxyRefusal } from "./dial.ts";
import type { WireCall } from "./request-body.ts";
import { createSseEvents } from "./sse-events.ts";

/** Milliseconds and bytes. A limit that is passed ends the call, and is named. */
export interface AskLimits {
  /** Until the request is sent: name, proxy, TLS. */
  connectMs: number;
  /** From there to the answer's status. */
  firstByteMs: number;
  /** Silence within the answer. */
  idleMs: number;
  /** The whole call. */
  totalMs: number;
  /** The answer's body. */
  answerBytes: number;
}

/** A model that thinks hard may be silent for minutes; a CLI waits as long. */
export const ASK_LIMITS: AskLimits = {
  connectMs: 10_000,
  firstByteMs: 120_000,
  idleMs: 120_000,
  totalMs: 600_000,
  answerBytes: 16 * 1024 * 1024,
};

export type FaultKind =
  | "http_status"
  | "unreachable"
  | "time_limit"
  | "stream_error"
  | "unreadable"
  | "interrupted";

export interface Asked {
  /** Null when none came. */
  status: number | null;
  /** What the provider or a gateway calls the request; a plain word of at most 128 characters. */
  requestId: string | null;
  /** As far as it came; null when no stream began. */
  answer: Answer | null;
  /** Why the call is no answer, whatever was read of it; null when the stream came to its end. */
  fault: { kind: FaultKind; detail: string } | null;
  firstByteMs: number | null;
  totalMs: number;
}

export interface AskOptions {
  baseUrl: string;
  protocol: ModelProtocol;
  key: string | null;
  proxy: URL | null;
  limits: AskLimits;
  clock: Clock;
  /** Ends the call at once, as `interrupted`. */
  signal: AbortSignal;
}

/** Never rejects. */
export async function ask(call: WireCall, options: AskOptions): Promise<Asked> {
  const { clock, limits, protocol, key, proxy } = options;
  const beganMs = clock.monotonicMs();
  const stop = new AbortController();
  const asked: Asked = {
    status: null,
    requestId: null,
    answer: null,
    fault: null,
    firstByteMs: null,
    totalMs: 0,
  };
  const fail = (kind: FaultKind, detail: string) => {
    asked.fault ??= { kind, detail };
    stop.abort();
  };
  const onInterrupt = () => fail("interrupted", "it was interrupted");
  options.signal.addEventListener("abort", onInterrupt);
  if (options.signal.aborted) onInterrupt();
  const endTotal = within(clock, limits.totalMs, () => fail("time_limit", named("totalMs", limits)));
  let endStep = within(clock, limits.connectMs, () => fail("time_limit", named("connectMs", limits)));
  let isSent = false;
  try {
    const url = new URL(`${options.baseUrl.replace(/\/$/, "")}${call.path}`);
    const headers = { ...call.headers, ...keyHeader(protocol, key) };
    const request = await dial({ url, proxy, method: "POST", headers, body: call.body, signal: stop.signal });
    request.once("finish", () => {
      isSent = true;
      endStep();
      endStep = within(clock, limits.firstByteMs, () => fail("time_limit", named("firstByteMs", limits)));
    });
    const answer = await answered(request, call.body);
    endStep();
    asked.firstByteMs = Math.round(clock.monotonicMs() - beganMs);
    asked.status = answer.statusCode ?? 0;
    asked.requestId = requestIdOf(answer.headers);
    await read(answer, asked, { ...options, fail });
  } catch (error) {
    fail(...causeOf(error, { isSent, hasStatus: asked.status !== null, proxy }));
  } finally {
    endStep();
    endTotal();
    options.signal.removeEventListener("abort", onInterrupt);
    stop.abort();
    asked.totalMs = Math.round(clock.monotonicMs() - beganMs);
  }
  return asked;
}

function answered(request: ClientRequest, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once("response", resolve);
    // It stays: an error may follow the one that was told.
    request.on("error", reject);
    request.end(body);
  });
}

/** Error texts and answers that are no stream: more of them is not needed. */
const SMALL_BODY_BYTES = 64 * 1024;

async function read(
  answer: IncomingMessage,
  asked: Asked,
  { clock, limits, protocol, fail }: AskOptions & { fail(kind: FaultKind, detail: string): void },
): Promise<void> {
  const isStream =
    asked.status === 200 && !/^application\/json\b/i.test(answer.headers["content-type"] ?? "");
  const silence: SilenceWatch = watchSilence(clock, limits.idleMs, () =>
    fail("time_limit", named("idleMs", limits)),
  );
  const reader = createAnswerReader(protocol);
  const events = createSseEvents(limits.answerBytes);
  const small: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      silence.touch();
      bytes += piece.length;
      if (!isStream && bytes > SMALL_BODY_BYTES) break;
      const ready = isStream ? events.feed(piece) : null;
      if (bytes > limits.answerBytes || (isStream && ready === null)) {
        fail("unreadable", `answerBytes: the answer is longer than ${limits.answerBytes} bytes`);
        break;
      }
      for (const data of ready ?? []) reader.take(data);
      if (!isStream) small.push(piece);
    }
  } finally {
    silence.stop();
    if (isStream) asked.answer = reader.end();
  }
  if (isStream) return;
  const text = faultTextOf(Buffer.concat(small).toString("utf8"));
  if (asked.status !== 200) fail("http_status", `status ${asked.status}${text === "" ? "" : `: ${text}`}`);
  else fail("unreadable", `the answer is no event stream${text === "" ? "" : `: ${text}`}`);
}

const ErrorBody = z.looseObject({
  error: z.nullish(z.union([z.string(), z.looseObject({ message: z.nullish(z.string()) })])),
  message: z.nullish(z.string()),
});

/** The message within an error's body, or the body's beginning. */
function faultTextOf(body: string): string {
  const parsed = ErrorBody.safeParse(parsedJson(body));
  if (!parsed.success) return body.trim();
  const { error, message } = parsed.data;
  return (typeof error === "string" ? error : (error?.message ?? message ?? body)).trim();
}

const REQUEST_ID_HEADERS = ["x-request-id", "request-id", "x-cpa-trace-id"] as const;

function requestIdOf(headers: IncomingMessage["headers"]): string | null {
  const found = REQUEST_ID_HEADERS.flatMap((name) => headers[name] ?? []);
  return found.find((id) => /^[\w.:-]{1,128}$/.test(id)) ?? null;
}

function causeOf(
  error: unknown,
  { isSent, hasStatus, proxy }: { isSent: boolean; hasStatus: boolean; proxy: URL | null },
): [FaultKind, string] {
  const { code, message } = error as NodeJS.ErrnoException;
  const why = code ?? message;
  if (error instanceof ProxyRefusal) return ["unreachable", message];
  if (hasStatus) return ["stream_error", `the stream broke off (${why})`];
  if (isSent) return ["stream_error", `the connection ended before an answer (${why})`];
  if (isCertificateFault(code)) {
    return ["unreachable", `TLS: ${message} (${why}); name your own authority with NODE_EXTRA_CA_CERTS=FILE`];
  }
  if (/^(?:EPROTO|ERR_SSL)/.test(code ?? ""))
    return ["unreachable", `TLS: the other side speaks none (${why})`];
  return [
    "unreachable",
    proxy === null ? `it can't be reached (${why})` : `it can't be reached through ${proxy.host} (${why})`,
  ];
}

function isCertificateFault(code: string | undefined): boolean {
  return /CERT|SIGNATURE|ISSUER/.test(code ?? "");
}

function named(name: "connectMs" | "firstByteMs" | "idleMs" | "totalMs", limits: AskLimits): string {
  return `${name}: ${SAYINGS[name]} within ${limits[name]} ms`;
}

const SAYINGS = {
  connectMs: "not connected",
  firstByteMs: "no answer",
  idleMs: "nothing more of the answer",
  totalMs: "not done",
} as const;

/** Runs `late` after the limit, once the event loop has polled again; the result ends the watch. */
function within(clock: Clock, limitMs: number, late: () => void): () => void {
  let cancel = clock.after(limitMs, () => {
    cancel = clock.afterPoll(late);
  });
  return () => cancel();
}
