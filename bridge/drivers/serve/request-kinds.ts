/** The three kinds of requests that a server makes of its user, each as data for `request-desk.ts`. */

import type { PermissionReply, PermissionRequest } from "../../../protocol/permission.ts";
import { decidePermission, type MemberPolicy } from "../../../protocol/permission-policy.ts";
import type { QuestionAnswers, QuestionRequest } from "../../../protocol/question.ts";
import type { PendingPermission, ServeApi } from "./api.ts";
import type { NativeQuestion } from "./native-event.ts";
import type { NativeAsk, RequestKind } from "./request-desk.ts";

export interface PermissionAsk extends NativeAsk {
  permission: string;
  patterns: string[];
}

export interface QuestionAsk extends NativeAsk {
  question: NativeQuestion;
}

/** `null` rejects. */
export type QuestionReply = QuestionAnswers | null;

export interface NetworkAsk extends NativeAsk {
  message: string;
  /** Counts the asks of this turn from 1. */
  tries: number;
}

/** Times that a provider out of reach is tried again in one turn, and the waits before each. Then it is given up. */
const NETWORK_WAITS_MS = [1000, 2000, 4000, 8000, 16_000] as const;

export function permissionKind(
  api: ServeApi,
  directory: string,
  policy: MemberPolicy,
): RequestKind<PermissionAsk, PermissionReply> {
  return {
    what: "POST /permission/:id/reply",
    decide(ask) {
      const action = decidePermission(policy, ask);
      if (action === "ask") return null;
      return action === "allow" ? "once" : "reject";
    },
    waitMs: () => policy.askLimitMs,
    expired: () => (policy.askDefault === "allow" ? "once" : "reject"),
    send: ({ id }, reply, limitMs) => api.replyPermission(id, reply, limitMs),
    pending: (limitMs) => api.pendingPermissions(directory, limitMs),
  };
}

export function questionKind(
  api: ServeApi,
  directory: string,
  waitMs: number,
): RequestKind<QuestionAsk, QuestionReply> {
  return {
    what: "POST /question/:id",
    decide: () => null,
    waitMs: () => waitMs,
    expired: () => null,
    send: ({ id }, reply, limitMs) => api.answerQuestion(id, reply, limitMs),
    pending: (limitMs) => api.pendingQuestions(directory, limitMs),
  };
}

/** Nobody is asked: the deadline decides, which is the back-off before the next try. */
export function networkKind(api: ServeApi, directory: string): RequestKind<NetworkAsk, "retry" | "reject"> {
  return {
    what: "POST /network/:id",
    decide: ({ tries }) => (tries > NETWORK_WAITS_MS.length ? "reject" : null),
    waitMs: ({ tries }) => NETWORK_WAITS_MS[tries - 1] ?? 0,
    expired: () => "retry",
    send: ({ id }, reply, limitMs) => api.replyNetwork(id, reply, limitMs),
    pending: (limitMs) => api.pendingNetwork(directory, limitMs),
  };
}

export function permissionAsk(native: PendingPermission): PermissionAsk {
  return {
    id: native.id,
    session: native.sessionID,
    call: native.tool?.callID ?? null,
    permission: native.permission.slice(0, 128),
    patterns: native.patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
  };
}

export function permissionRequest({ id, session, permission, patterns }: PermissionAsk): PermissionRequest {
  return { request: id, session, permission, patterns };
}

export function questionAsk(native: NativeQuestion): QuestionAsk {
  return { id: native.id, session: native.sessionID, call: native.tool?.callID ?? null, question: native };
}

/** As it goes to the controller; what exceeds the bounds of the wire is cut. */
export function questionRequest(ask: QuestionAsk, ancestry: QuestionRequest["ancestry"]): QuestionRequest {
  const line = (text: string) => text.slice(0, 2000);
  return {
    request: ask.id,
    session: ask.session,
    ancestry,
    items: ask.question.questions.slice(0, 16).map((item) => ({
      header: line(item.header),
      question: line(item.question),
      options: item.options
        .slice(0, 64)
        .map(({ label, description }) => ({ label: line(label), description: line(description) })),
      isMultiple: item.multiple === true,
      // The server takes any text as an answer unless it says otherwise.
      isOpen: item.custom !== false,
    })),
  };
}
