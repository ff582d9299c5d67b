/**
 * What codex asks during one turn, by the main thread and by its subagents: permissions and questions, each with one
 * reply. `serverRequest/resolved` is codex's own word that the reply took effect; behind the turn's end it says that
 * codex took its request back.
 */
import { clip, type ErrorCode, HoldfastError } from "../../../protocol/errors.ts";
import type { PermissionReply } from "../../../protocol/permission.ts";
import { decidePermission } from "../../../protocol/permission-policy.ts";
import { type Ancestry, answersProblem, type QuestionAnswers } from "../../../protocol/question.ts";
import type { LaunchRequest, Observation } from "../driver.ts";
import { openPipeDesk } from "../stdio/pipe-desk.ts";
import {
  type CodexAsk,
  canBePut,
  type PermissionAsk,
  permissionRequest,
  permissionResult,
  type QuestionAsk,
  type QuestionReply,
  questionRequest,
  questionResult,
} from "./native-asks.ts";
import type { RequestId } from "./native-message.ts";

export interface TurnRequestsOptions {
  request: LaunchRequest;
  ancestry(session: string): Ancestry;
  /** Resolves when the reply is in the pipe. */
  send(native: RequestId, result: unknown): Promise<void>;
  report(observation: Observation): void;
  onUnresolved(code: ErrorCode, detail: string): void;
}

export interface TurnRequests {
  asked(ask: CodexAsk): void;
  /** Codex has its answer, or needs none any more. */
  resolved(native: RequestId): void;
  answerPermission(session: string, id: string, reply: PermissionReply): void;
  answerQuestion(session: string, id: string, answers: QuestionAnswers | null): void;
  close(why: string): void;
}

/** The word by which the model asks its user; codex has no item for it. */
const QUESTION_TOOL = "request_user_input";

export function openTurnRequests(options: TurnRequestsOptions): TurnRequests {
  const { request, ancestry, report } = options;
  const { clock, limits, launch } = request;
  const policy = launch.permissions;

  const permissions = openPipeDesk<PermissionAsk, PermissionReply>({
    clock,
    decide(ask) {
      const action = decidePermission(policy, ask);
      return action === "ask" ? null : action === "allow" ? "once" : "reject";
    },
    waitMs: () => policy.askLimitMs,
    expired: () => (policy.askDefault === "allow" ? "once" : "reject"),
    send: (ask, reply) => options.send(ask.native, permissionResult(ask, reply)),
    onAsked: (ask, deadlineAt) =>
      report({
        kind: "permission_asked",
        request: permissionRequest(ask),
        ancestry: ancestry(ask.session),
        action: decidePermission(policy, ask),
        deadlineAt,
      }),
    onClosed: ({ id, session }, { detail, ...closed }) =>
      report({ kind: "permission_closed", request: id, session, ...closed, detail: clip(detail) }),
    onUnresolved: (detail) => options.onUnresolved("PERMISSION_UNRESOLVED", detail),
  });

  const tell = ({ session, call }: QuestionAsk, status: "running" | "completed") =>
    report({ kind: "tool", session, call, tool: QUESTION_TOOL, status, title: "" });

  const questions = openPipeDesk<QuestionAsk, QuestionReply>({
    clock,
    decide: () => null,
    waitMs: (ask) => (canBePut(ask) ? limits.questionMs : 0),
    expired: () => null,
    send: (ask, reply) => options.send(ask.native, questionResult(ask, reply)),
    onAsked(ask, deadlineAt) {
      tell(ask, "running");
      report({
        kind: "question_asked",
        question: questionRequest(ask, ancestry(ask.session)),
        deadlineAt: deadlineAt ?? clock.nowAt(),
      });
    },
    onClosed(ask, { result, reply, by, detail }) {
      const { id, session } = ask;
      report({
        kind: "question_closed",
        request: id,
        session,
        result,
        reply: by === null ? null : reply === null ? "rejected" : "answered",
        by,
        detail: clip(detail),
      });
      if (result === "confirmed" || result === "withdrawn") tell(ask, "completed");
    },
    onUnresolved: (detail) => options.onUnresolved("QUESTION_UNRESOLVED", detail),
  });

  return {
    asked(ask) {
      if (ask.kind === "question") questions.asked(ask);
      else permissions.asked(ask);
    },
    resolved(native) {
      permissions.confirmed(String(native), "serverRequest/resolved");
      questions.confirmed(String(native), "serverRequest/resolved");
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
    },
  };
}
