/** The three kinds of requests that a server makes of its user, each as data for `request-desk.ts`. */

import type { PermissionReply, PermissionRequest } from "../../../protocol/permission.ts";
import { decidePermission, type MemberPolicy } from "../../../protocol/permission-policy.ts";
import type { QuestionAnswers, QuestionRequest } from "../../../protocol/question.ts";
import type { PendingPermission, ServeApi } from "./api.ts";
import type { NativeQuestion } from "./native-event.ts";
import type { NativeAsk, RequestKind } from "./request-desk.ts";

/** Whole, as the policy must see it: what the record cuts off would be a way around its rules. */
export interface PermissionAsk extends NativeAsk {
  permission: string;
  patterns: string[];
}

export interface QuestionAsk extends NativeAsk {
  question: NativeQuestion;
}

/** Items of one question that fit on the wire. A question without any, or with more, can't be put to the user. */
const QUESTION_ITEMS = 16;

/** `null` rejects. */
export type QuestionReply = QuestionAnswers | null;

export interface NetworkAsk extends NativeAsk {
  message: string;
  /** Counts the asks of this turn from 1; 0 until it is decided, so that strangers and repeats do not count. */
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
    waitMs: ({ question }) =>
      question.questions.length === 0 || question.questions.length > QUESTION_ITEMS ? 0 : waitMs,
    expired: () => null,
    send: ({ id }, reply, limitMs) => api.answerQuestion(id, reply, limitMs),
    pending: (limitMs) => api.pendingQuestions(directory, limitMs),
  };
}

/** Nobody is asked: the deadline decides, which is the back-off before the next try. */
export function networkKind(api: ServeApi, directory: string): RequestKind<NetworkAsk, "retry" | "reject"> {
  let tries = 0;
  return {
    what: "POST /network/:id",
    decide(ask) {
      tries += 1;
      ask.tries = tries;
      return tries > NETWORK_WAITS_MS.length ? "reject" : null;
    },
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
    permission: native.permission,
    patterns: native.patterns,
  };
}

/** As it goes to the controller, cut to the bounds of the wire. */
export function permissionRequest({ id, session, permission, patterns }: PermissionAsk): PermissionRequest {
  return {
    request: id,
    session,
    permission: permission.slice(0, 128),
    patterns: patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
  };
}

export function questionAsk(native: NativeQuestion): QuestionAsk {
  return { id: native.id, session: native.sessionID, call: native.tool?.callID ?? null, question: native };
}

/** As it goes to the controller; what exceeds the bounds of the wire is cut. */
export function questionRequest(ask: QuestionAsk, ancestry: QuestionRequest["ancestry"]): QuestionRequest {
  const line = (text: string) => text.slice(0, 2000);
  const { questions } = ask.question;
  const items = questions.length > 0 ? questions : [{ header: "", question: "", options: [] }];
  return {
    request: ask.id,
    session: ask.session,
    ancestry,
    items: items.slice(0, QUESTION_ITEMS).map((item: NativeQuestion["questions"][number]) => ({
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
