/**
 * All that the CLI asks during one turn: permissions, questions, and whether to try its provider again. Feeds the desks
 * from events and from the pending lists, and reports what they decide. Requests that were pending before the turn are
 * the ghosts of an abort: they still take an answer, and get none.
 */
import { asHoldfastError, clip, type ErrorCode, HoldfastError } from "../../../protocol/errors.ts";
import type { PermissionReply } from "../../../protocol/permission.ts";
import { decidePermission } from "../../../protocol/permission-policy.ts";
import { type Ancestry, answersProblem, type QuestionAnswers } from "../../../protocol/question.ts";
import type { LaunchRequest, Observation } from "../driver.ts";
import type { PendingPermission, ServeApi } from "./api.ts";
import type { NativeEvent, NativeQuestion } from "./native-event.ts";
import { type DeskOptions, type NativeAsk, openRequestDesk, type RequestKind } from "./request-desk.ts";
import {
  networkKind,
  permissionAsk,
  permissionKind,
  permissionRequest,
  questionAsk,
  questionKind,
  questionRequest,
} from "./request-kinds.ts";

export interface TurnRequestsOptions {
  api: ServeApi;
  request: LaunchRequest;
  directory: string;
  asksForNetwork: boolean;
  isOurs(session: string): Promise<boolean>;
  isAtWork(session: string, call: string): boolean;
  ancestry(session: string): Ancestry;
  report(observation: Observation): void;
  /** The session waits for its provider. */
  onProviderWait(session: string, reason: string): void;
  onUnresolved(code: ErrorCode, detail: string): void;
}

/** What the server lists as waiting for an answer. */
export interface Pending {
  asked: PendingPermission[];
  questioned: NativeQuestion[];
}

export async function listPending(api: ServeApi, directory: string, limitMs: number): Promise<Pending> {
  const [asked, questioned] = await Promise.all([
    api.pendingPermissions(directory, limitMs),
    api.pendingQuestions(directory, limitMs),
  ]);
  return { asked, questioned };
}

export interface TurnRequests {
  /** True when the event was a request's or a reply's. */
  take(event: NativeEvent): boolean;
  /** Notes what is pending before the prompt goes out. */
  noteGhosts(pending: Pending): void;
  /** Handles what is pending and was never seen on the stream. */
  catchUp(): Promise<void>;
  answerPermission(session: string, id: string, reply: PermissionReply): void;
  answerQuestion(session: string, id: string, answers: QuestionAnswers | null): void;
  close(why: string): void;
}

export function openTurnRequests(options: TurnRequestsOptions): TurnRequests {
  const { api, request, directory, report, ancestry } = options;
  const { clock, limits, log } = request;
  const policy = request.launch.permissions;
  const ghosts = new Set<string>();

  function desk<Ask extends NativeAsk, Reply>(
    kind: RequestKind<Ask, Reply>,
    code: ErrorCode,
    rest: Pick<DeskOptions<Ask, Reply>, "onAsked" | "onClosed">,
  ) {
    return openRequestDesk<Ask, Reply>({
      kind,
      clock,
      limitMs: limits.permissionMs,
      isOurs: options.isOurs,
      isAtWork: options.isAtWork,
      onUnresolved: (detail) => options.onUnresolved(code, detail),
      ...rest,
    });
  }

  const permissions = desk(permissionKind(api, directory, policy), "PERMISSION_UNRESOLVED", {
    onAsked: (ask, deadlineAt) =>
      report({
        kind: "permission_asked",
        request: permissionRequest(ask),
        ancestry: ancestry(ask.session),
        action: decidePermission(policy, ask),
        deadlineAt,
      }),
    onClosed: ({ id, session }, { result, reply, by, detail }) =>
      report({ kind: "permission_closed", request: id, session, result, reply, by, detail: clip(detail) }),
  });

  const questions = desk(questionKind(api, directory, limits.questionMs), "QUESTION_UNRESOLVED", {
    onAsked: (ask, deadlineAt) =>
      report({
        kind: "question_asked",
        question: questionRequest(ask, ancestry(ask.session)),
        deadlineAt: deadlineAt ?? clock.nowAt(),
      }),
    onClosed: ({ id, session }, { result, reply, by, detail }) =>
      report({
        kind: "question_closed",
        request: id,
        session,
        result,
        reply: by === null ? null : reply === null ? "rejected" : "answered",
        by,
        detail: clip(detail),
      }),
  });

  const network = desk(networkKind(api, directory), "NATIVE_FAILED", {
    onAsked(ask, deadlineAt) {
      options.onProviderWait(ask.session, clip(ask.message));
      report({ kind: "waiting", reason: clip(ask.message), attempt: ask.tries, nextAt: deadlineAt });
    },
    onClosed: () => undefined,
  });

  const isGhost = (session: string, id: string) => ghosts.has(`${session} ${id}`);

  const pendingNow = () => listPending(api, directory, limits.requestMs);

  return {
    take({ type, properties }) {
      if (type === "permission.asked") {
        const ask = permissionAsk(properties);
        if (!isGhost(ask.session, ask.id)) permissions.asked(ask);
      } else if (type === "permission.replied") {
        permissions.replied(properties.sessionID, properties.requestID);
      } else if (type === "question.asked") {
        const ask = questionAsk(properties);
        if (!isGhost(ask.session, ask.id)) questions.asked(ask);
      } else if (type === "question.replied" || type === "question.rejected") {
        questions.replied(properties.sessionID, properties.requestID);
      } else if (type === "session.network.asked") {
        const { id, sessionID, message = "" } = properties;
        if (options.asksForNetwork) network.asked({ id, session: sessionID, call: null, message, tries: 0 });
      } else if (type === "session.network.replied" || type === "session.network.rejected") {
        network.replied(properties.sessionID, properties.requestID ?? properties.id ?? "");
      } else {
        return false;
      }
      return true;
    },
    noteGhosts({ asked, questioned }) {
      for (const { id, sessionID } of [...asked, ...questioned]) ghosts.add(`${sessionID} ${id}`);
    },
    async catchUp() {
      try {
        const { asked, questioned } = await pendingNow();
        for (const native of asked)
          if (!isGhost(native.sessionID, native.id)) permissions.asked(permissionAsk(native));
        for (const native of questioned)
          if (!isGhost(native.sessionID, native.id)) questions.asked(questionAsk(native));
      } catch (error) {
        // The stream brings what is asked from here on; the lists are the second look.
        log.warn("the pending requests could not be listed", { error: asHoldfastError(error).message });
      }
    },
    answerPermission: (session, id, reply) => permissions.answer(session, id, () => reply),
    answerQuestion: (session, id, answers) =>
      questions.answer(session, id, (ask) => {
        const problem = answers === null ? null : answersProblem(questionRequest(ask, []), answers);
        if (problem !== null) throw new HoldfastError("REQUEST_INVALID", problem);
        return answers;
      }),
    close(why) {
      permissions.close(why);
      questions.close(why);
      network.close(why);
    },
  };
}
