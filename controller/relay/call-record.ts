/**
 * Reads along with one call, and makes its record when it has ended: digests of the request, figures and ids of the
 * answer. It holds a request's body until then, bounded by the relay's own limit, and no more of an answer than one event.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { ModelCaller } from "../../protocol/model-token.ts";
import type { CallEnd, CallReaders } from "./call.ts";
import { type CallReader, type CallReading, createCallReader } from "./call-reader.ts";
import { UNKNOWN_USAGE } from "./call-usage.ts";
import { type ModelCall, purposeOf } from "./model-call.ts";
import { plainId } from "./provider-id.ts";
import { digestRequest, type RequestDigest } from "./request-digest.ts";
import type { Route } from "./routes.ts";

export interface CallSubject {
  /** Our own id of the call. */
  id: string;
  sandbox: string;
  caller: ModelCaller;
  /** The member's active turn when the call began, and its native session as far as it is known. */
  turn: string | null;
  nativeId: string | null;
  route: Route;
  startedAt: number;
}

/** A call as it is recorded; the store adds its prefix verdict. */
export type CallRecord = Omit<ModelCall, "prefix">;

const PATH_CHARS = 200;

const UNREAD: CallReading = {
  usage: UNKNOWN_USAGE,
  usageObserved: false,
  isTerminal: false,
  isError: false,
  model: null,
  providerId: null,
  stopReason: null,
  isWhollyRead: false,
};

/** @param done gets the record once, after the call's end; nothing of it may throw */
export function readCall(
  subject: CallSubject,
  inbound: IncomingMessage,
  below: string,
  done: (call: CallRecord, digest: RequestDigest | null, end: CallEnd) => void,
): CallReaders {
  const { route, caller } = subject;
  const purpose = purposeOf(route.protocol, inbound.method ?? "", below);
  const hash = createHash("sha256");
  const body: Buffer[] = [];
  let head: IncomingMessage | null = null;
  let reader: CallReader | null = null;

  function finish(end: CallEnd, reading: CallReading): void {
    const digest =
      purpose === "generate" ? digestRequest(route.protocol, inbound.headers, Buffer.concat(body)) : null;
    const header = (name: string) => plainId(head?.headers[name]);
    const call: CallRecord = {
      id: subject.id,
      sandbox: subject.sandbox,
      member: caller.member,
      turn: subject.turn,
      processGeneration: caller.processGeneration,
      nativeId: subject.nativeId,
      protocol: route.protocol,
      route: route.name,
      path: below.replace(/\?.*$/s, "").slice(0, PATH_CHARS),
      purpose,
      model: digest?.model ?? null,
      startedAt: subject.startedAt,
      firstByteMs: end.firstByteMs,
      totalMs: end.totalMs,
      status: end.status,
      outcome: end.outcome,
      requestBytes: end.requestBytes,
      responseBytes: end.responseBytes,
      requestSha256: hash.digest("hex"),
      answerId: reading.providerId,
      providerRequestId: header("x-request-id") ?? header("request-id"),
      gatewayTraceId: header("x-cpa-trace-id"),
      answerModel: reading.model,
      stopReason: reading.stopReason,
      isTerminal: reading.isTerminal,
      usageObserved: reading.usageObserved,
      usage: reading.usage,
    };
    done(call, digest, end);
  }

  return {
    request(chunk) {
      hash.update(chunk);
      if (purpose === "generate") body.push(chunk);
    },
    answered(answer) {
      head = answer;
      if (purpose !== "generate") return;
      const contentType = answer.headers["content-type"] ?? null;
      const contentCoding = answer.headers["content-encoding"] ?? null;
      reader = createCallReader({ protocol: route.protocol, contentType, contentCoding });
    },
    answer: (chunk) => reader?.take(chunk),
    ended(end) {
      if (reader === null) finish(end, UNREAD);
      else
        reader.end().then(
          (reading) => finish(end, reading),
          () => finish(end, UNREAD),
        );
    },
  };
}
