/**
 * Permissions and questions of one turn: each is decided by the policy, the user or the deadline, answered once on the
 * pipe, and confirmed when the CLI plays the answer back (it does so for a request that waited, and for no other) or goes
 * on with the tool. A request that the CLI cancels is withdrawn: an answer behind that is not sent.
 */
import { clip, type ErrorCode, HoldfastError } from "../../../protocol/errors.ts";
import type { PermissionReply } from "../../../protocol/permission.ts";
import {
  type Ancestry,
  answersProblem,
  type DecidedBy,
  type QuestionAnswers,
} from "../../../protocol/question.ts";
import type { Observation } from "../driver.ts";
import { openPipeDesk } from "../stdio/pipe-desk.ts";
import type { Pipe } from "../stdio/resident.ts";
import {
  controlAnswer,
  decideAsk,
  deniedBy,
  isAskable,
  isQuestion,
  permissionAnswer,
  permissionRequest,
  questionAnswer,
  questionRequest,
  type ToolAsk,
  toolAsk,
} from "./asks.ts";
import type { NativeMessage } from "./native-message.ts";

export interface TurnDesks {
  take(message: NativeMessage): void;
  /** The tool call of a request went on. */
  confirmed(call: string): void;
  answerPermission(session: string, id: string, reply: PermissionReply): void;
  answerQuestion(session: string, id: string, answers: QuestionAnswers | null): void;
  close(why: string): void;
}

type Decider = Exclude<DecidedBy, null>;
/** What is replied, and by whom: the CLI hands the words of a refusal to the model. */
interface Reply<T> {
  value: T;
  by: Decider;
}

export function openTurnDesks(options: {
  pipe: Pipe;
  root: string;
  directory: string;
  ancestry(session: string): Ancestry;
  report(observation: Observation): void;
}): TurnDesks {
  const { pipe, root, directory, ancestry, report } = options;
  const { clock, limits, launch } = pipe.request;
  const policy = launch.permissions;
  /** Requests by the tool call that waits for them. */
  const waiting = new Map<string, string>();

  const actionOf = (ask: ToolAsk) => decideAsk(policy, ask, directory);
  const onUnresolved = (code: ErrorCode) => (detail: string) =>
    report({
      kind: "permission_unresolved",
      code,
      detail: clip(detail),
      evidence: pipe.evidence("request_unresolved", "stream", clip(detail)),
    });

  const permissions = openPipeDesk<ToolAsk, Reply<PermissionReply>>({
    clock,
    decide(ask) {
      const action = actionOf(ask);
      if (action === "ask") return null;
      return { value: action === "allow" ? "once" : "reject", by: "policy" };
    },
    waitMs: () => policy.askLimitMs,
    expired: () => ({ value: policy.askDefault === "allow" ? "once" : "reject", by: "deadline" }),
    send: (ask, { value, by }) =>
      pipe.send(controlAnswer(ask.id, permissionAnswer(ask, value, by)), limits.permissionMs),
    onAsked: (ask, deadlineAt) =>
      report({
        kind: "permission_asked",
        request: permissionRequest(ask, directory),
        ancestry: ancestry(ask.session),
        action: actionOf(ask),
        deadlineAt,
      }),
    onClosed: ({ id, session }, { result, reply, by, detail }) =>
      report({
        kind: "permission_closed",
        request: id,
        session,
        result,
        reply: reply?.value ?? null,
        by,
        detail: clip(detail),
      }),
    onUnresolved: onUnresolved("PERMISSION_UNRESOLVED"),
  });

  const questions = openPipeDesk<ToolAsk, Reply<QuestionAnswers | null>>({
    clock,
    decide: () => null,
    waitMs: (ask) => (isAskable(ask) ? limits.questionMs : 0),
    expired: () => ({ value: null, by: "deadline" }),
    send: (ask, { value, by }) =>
      pipe.send(
        controlAnswer(ask.id, value === null ? deniedBy(by) : questionAnswer(ask, value)),
        limits.permissionMs,
      ),
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
        reply: reply === null ? null : reply.value === null ? "rejected" : "answered",
        by,
        detail: clip(detail),
      }),
    onUnresolved: onUnresolved("QUESTION_UNRESOLVED"),
  });

  function each(id: string, act: (desk: Pick<typeof permissions, "confirmed" | "cancelled">) => void): void {
    // Ids are unique over both: the desk that does not know one does nothing.
    for (const desk of [permissions, questions]) act(desk);
    for (const [call, request] of waiting) if (request === id) waiting.delete(call);
  }

  return {
    take(message) {
      if (message.type === "control_request") {
        const ask = toolAsk(message, root);
        if (ask === null) return;
        if (ask.call !== "") waiting.set(ask.call, ask.id);
        (isQuestion(ask) ? questions : permissions).asked(ask);
      } else if (message.type === "control_response") {
        const { request_id: id } = message.response;
        each(id, (desk) => desk.confirmed(id, "the CLI played the answer back"));
      } else if (message.type === "control_cancel_request") {
        const { request_id: id } = message;
        each(id, (desk) => desk.cancelled(id, "the CLI cancelled its request"));
      }
    },
    confirmed(call) {
      const id = waiting.get(call);
      if (id !== undefined) each(id, (desk) => desk.confirmed(id, "the tool has its result"));
    },
    answerPermission: (session, id, value) => permissions.answer(session, id, () => ({ value, by: "user" })),
    answerQuestion: (session, id, value) =>
      questions.answer(session, id, (ask) => {
        const problem = value === null ? null : answersProblem(questionRequest(ask, []), value);
        if (problem !== null) throw new HoldfastError("REQUEST_INVALID", problem);
        return { value, by: "user" };
      }),
    close(why) {
      permissions.close(why);
      questions.close(why);
    },
  };
}
