/**
 * What pi asks during one turn: permissions for tools and questions to the user, each with one reply. Our extension says
 * what it made of a permission; a question is seen to be answered when its call ends.
 */
import { clip, type ErrorCode } from "../../../protocol/errors.ts";
import type { PermissionReply } from "../../../protocol/permission.ts";
import { decidePermission } from "../../../protocol/permission-policy.ts";
import type { QuestionAnswers } from "../../../protocol/question.ts";
import type { LaunchRequest, Observation } from "../driver.ts";
import { openPipeDesk } from "../stdio/pipe-desk.ts";
import {
  checkedReply,
  type DialogReply,
  type PermissionDialog,
  type QuestionDialog,
  questionRequest,
} from "./dialog.ts";
import { ALLOW, REJECT } from "./extension/words.ts";

export interface TurnRequestsOptions {
  request: LaunchRequest;
  session: string;
  /** Resolves when the reply is in the pipe. */
  send(dialog: string, reply: DialogReply): Promise<void>;
  report(observation: Observation): void;
  onUnresolved(code: ErrorCode, detail: string): void;
}

export interface TurnRequests {
  asked(dialog: PermissionDialog | QuestionDialog): void;
  /** Our extension has the answer for this call. */
  decided(call: string): void;
  /** The call is over, whatever was asked for it. */
  callEnded(call: string): void;
  answerPermission(session: string, id: string, reply: PermissionReply): void;
  answerQuestion(session: string, id: string, answers: QuestionAnswers | null): void;
  /** Cancels what is open, and from now on whatever is asked: pi does not end a turn over an open dialog. */
  refuseAll(): Promise<void>;
  /** Pi went on to the turn's end, over whatever had its answer. What nobody answered is cancelled: it would wait on. */
  settled(): void;
  close(why: string): void;
}

/** Calls whose dialogs are known by their end. Beyond, the desks end the turn anyway. */
const CALLS = 10_000;

const CANCELLED = { cancelled: true } as const;

export function openTurnRequests(options: TurnRequestsOptions): TurnRequests {
  const { request, session, report } = options;
  const { clock, limits, launch } = request;
  const policy = launch.permissions;
  const dialogOf = { permission: new Map<string, string>(), question: new Map<string, string>() };
  /** Dialogs with an answer for which no call is known, by whose end it would be seen. */
  const answered = new Set<string>();
  let isRefusing = false;

  const permissions = openPipeDesk<PermissionDialog & { session: string }, PermissionReply>({
    clock,
    decide(ask) {
      if (isRefusing) return "reject";
      const action = actionFor(ask);
      return action === "ask" ? null : action === "allow" ? "once" : "reject";
    },
    waitMs: () => policy.askLimitMs,
    expired: () => (policy.askDefault === "allow" ? "once" : "reject"),
    send: ({ id }, reply) =>
      options.send(id, isRefusing ? CANCELLED : { value: reply === "once" ? ALLOW : REJECT }),
    onAsked: (ask, deadlineAt) =>
      report({
        kind: "permission_asked",
        request: {
          request: ask.id,
          session,
          permission: ask.tool.slice(0, 128),
          patterns: ask.patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
        },
        ancestry: [{ session, title: "" }],
        action: actionFor(ask),
        deadlineAt,
      }),
    onClosed: ({ id }, { detail, ...closed }) =>
      report({ kind: "permission_closed", request: id, session, ...closed, detail: clip(detail) }),
    onUnresolved: (detail) => options.onUnresolved("PERMISSION_UNRESOLVED", detail),
  });

  const questions = openPipeDesk<QuestionDialog & { session: string }, DialogReply>({
    clock,
    decide: () => (isRefusing ? CANCELLED : null),
    // After its own limit pi has let go of the dialog, and an answer would reach nobody.
    waitMs: ({ timeoutMs }) => Math.min(limits.questionMs, timeoutMs ?? limits.questionMs),
    expired: () => CANCELLED,
    async send({ id, call }, reply) {
      await options.send(id, reply);
      if (call === null) answered.add(id);
    },
    onAsked: (ask, deadlineAt) =>
      report({
        kind: "question_asked",
        question: questionRequest(ask, session),
        deadlineAt: deadlineAt ?? clock.nowAt(),
      }),
    onClosed: ({ id }, { result, reply, by, detail }) =>
      report({
        kind: "question_closed",
        request: id,
        session,
        result,
        reply: by === null || reply === null ? null : "cancelled" in reply ? "rejected" : "answered",
        by,
        detail: clip(detail),
      }),
    onUnresolved: (detail) => options.onUnresolved("QUESTION_UNRESOLVED", detail),
  });

  function actionFor({ tool, patterns }: PermissionDialog) {
    return decidePermission(policy, { permission: tool, patterns });
  }

  async function refuseAll(): Promise<void> {
    isRefusing = true;
    await Promise.all([permissions.settle(() => "reject"), questions.settle(() => CANCELLED)]);
  }

  return {
    asked(dialog) {
      const known = dialogOf[dialog.kind];
      if (dialog.call !== null && known.size < CALLS) known.set(dialog.call, dialog.id);
      if (dialog.kind === "permission") permissions.asked({ ...dialog, session });
      else questions.asked({ ...dialog, session });
    },
    decided(call) {
      const id = dialogOf.permission.get(call);
      if (id !== undefined) permissions.confirmed(id, "the extension has the answer");
    },
    callEnded(call) {
      const permission = dialogOf.permission.get(call);
      if (permission !== undefined) permissions.confirmed(permission, "the call ended");
      const question = dialogOf.question.get(call);
      if (question !== undefined) questions.confirmed(question, "the call ended");
    },
    answerPermission: (asking, id, reply) => permissions.answer(asking, id, () => reply),
    answerQuestion: (asking, id, answers) =>
      questions.answer(asking, id, (ask) =>
        answers === null ? CANCELLED : checkedReply(ask, session, answers),
      ),
    refuseAll,
    settled() {
      for (const id of answered) questions.confirmed(id, "the turn went on to its end");
      void refuseAll();
    },
    close(why) {
      permissions.close(why);
      questions.close(why);
    },
  };
}
