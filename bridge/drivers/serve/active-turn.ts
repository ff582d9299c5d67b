/**
 * The active turn of a resident: feeds the pure view, keeps its timer, its permissions and the sessions under it, and
 * hands on observations. Ends with `close`, after which nothing of it is reported or answered any more.
 */
import { asHoldfastError, clip } from "../../../protocol/errors.ts";
import type { Evidence } from "../../../protocol/evidence.ts";
import type { LaunchRequest, Observation } from "../driver.ts";
import type { ServeApi } from "./api.ts";
import type { NativeEvent } from "./native-event.ts";
import { openPermissionDesk } from "./permission-desk.ts";
import { createTurnView, type ViewChange } from "./turn-view.ts";

/** How often, and how far apart, a session's parents are looked up before it is called a stranger's. */
const ANCESTRY_TRIES = 4;
const ANCESTRY_WAIT_MS = 100;
/** Levels of Task children that are followed. */
const ANCESTRY_DEPTH = 32;

export interface ActiveTurnOptions {
  api: ServeApi;
  request: LaunchRequest;
  session: string;
  directory: string;
  ownMessage: string;
  earlierMessages: ReadonlySet<string>;
  evidence(what: string, source: Evidence["source"], detail?: string): Evidence;
  onObservation(observation: Observation): void;
}

export interface ActiveTurn {
  take(event: NativeEvent): void;
  isOurs(session: string): boolean;
  /** The root was busy with this turn's message, or has ended with it. */
  hasStarted(): boolean;
  /** Returns the ids of the messages that it saw. */
  close(): Iterable<string>;
}

export function openActiveTurn(options: ActiveTurnOptions): ActiveTurn {
  const { api, request, session, evidence } = options;
  const { clock, limits } = request;
  const view = createTurnView(session, options.ownMessage, options.earlierMessages);
  const messages = new Set<string>([options.ownMessage]);
  /** Questions that were seen, by session and request. */
  const questions = new Set<string>();
  let cancelOverdue: (() => void) | null = null;
  let isClosed = false;

  const report = (observation: Observation) => {
    if (!isClosed) options.onObservation(observation);
  };

  const desk = openPermissionDesk({
    api,
    clock,
    directory: options.directory,
    policy: request.launch.permissions.policy,
    limitMs: limits.permissionMs,
    isOurs: isOursByAncestry,
    isAtWork: view.isAtWork,
    onObservation: report,
    onUnresolved: (detail) =>
      report({
        kind: "permission_unresolved",
        code: "PERMISSION_UNRESOLVED",
        detail,
        evidence: evidence("permission_unresolved", "http", clip(detail)),
      }),
  });

  /** Known from the stream, or found by walking up the parents: the stream may be behind the request. */
  async function isOursByAncestry(asking: string): Promise<boolean> {
    for (let tries = 1; tries <= ANCESTRY_TRIES; tries += 1) {
      try {
        if (await adoptByParents(asking)) return true;
      } catch (error) {
        // Whose it is could not be asked: it may be ours, and must not be left without an answer.
        if (tries === ANCESTRY_TRIES) throw error;
      }
      await new Promise<void>((resolve) => clock.after(ANCESTRY_WAIT_MS, resolve));
    }
    return false;
  }

  /** Walks up the parents; what lies between the session and one of ours is the turn's too. */
  async function adoptByParents(asking: string): Promise<boolean> {
    const path: string[] = [];
    let at: string | null = asking;
    while (at !== null && path.length < ANCESTRY_DEPTH) {
      if (view.isOurs(at)) {
        for (const session of path) view.adopt(session);
        return true;
      }
      path.push(at);
      at = (await api.session(at))?.parentID ?? null;
    }
    return false;
  }

  function expectEnd(): void {
    cancelOverdue ??= clock.after(limits.endOverdueMs, () => {
      cancelOverdue = null;
      const error = view.lastError();
      // Children that are still at work are no overdue end: the turn is simply not over.
      if (view.busyDescendants().length > 0 && error === null) return void askForDescendants();
      report({
        kind: "end_overdue",
        error,
        evidence: evidence("end_overdue", "stream", error?.name ?? "idle, not final"),
      });
    });
  }

  /** A child that was created and never ran sends no idle: the server's own list says who is at work. */
  async function askForDescendants(): Promise<void> {
    try {
      const busy = new Set(await api.busySessions(options.directory));
      const idle = view.busyDescendants().filter((id) => !busy.has(id));
      if (!isClosed) for (const change of view.quiet(idle)) onChange(change);
    } catch (error) {
      request.log.warn("the children's state could not be asked", { error: asHoldfastError(error).message });
    }
    if (!isClosed && view.busyDescendants().length > 0) expectEnd();
  }

  function forgetEnd(): void {
    cancelOverdue?.();
    cancelOverdue = null;
  }

  function onChange(change: ViewChange): void {
    switch (change.kind) {
      case "own_event":
        return report({
          kind: "own_event",
          evidence: evidence("own_user_message", "stream", options.ownMessage),
        });
      case "end_expected":
        return expectEnd();
      case "end_not_expected":
        return forgetEnd();
      case "native_end": {
        forgetEnd();
        desk.close();
        const what = evidence("root_idle_none_open", "stream", change.status);
        return report({ ...change, evidence: [what] });
      }
      case "tool":
        return report({ ...change, title: clip(change.title, 200), tool: change.tool.slice(0, 128) });
      case "waiting":
        return report({ ...change, reason: clip(change.reason) });
      case "text":
      case "withdrawn":
        return report(change);
      default: {
        const never: never = change;
        throw new TypeError(`change ${String(never)} is not handled`);
      }
    }
  }

  return {
    take(event) {
      if (isClosed) return;
      if (event.type === "message.updated" && event.properties.sessionID === session) {
        messages.add(event.properties.info.id);
      }
      if (event.type === "permission.asked") {
        const { id, sessionID, permission, patterns, tool } = event.properties;
        return desk.asked({ id, session: sessionID, permission, patterns, call: tool?.callID ?? null });
      }
      if (event.type === "permission.replied") {
        return desk.replied(event.properties.sessionID, event.properties.requestID);
      }
      if (event.type === "question.asked") {
        return void refuseQuestion(event.properties.sessionID, event.properties.id);
      }
      for (const change of view.take(event)) onChange(change);
    },
    isOurs: view.isOurs,
    hasStarted: view.hasStarted,
    close() {
      forgetEnd();
      // Its closing reports must still get out.
      desk.close();
      isClosed = true;
      return messages;
    },
  };

  /** Questions have no way to a user yet: refused loudly, by the native's own call, so that the turn does not hang. */
  async function refuseQuestion(asking: string, question: string): Promise<void> {
    const key = `${asking} ${question}`;
    if (questions.has(key)) return;
    questions.add(key);
    let detail: string;
    try {
      if (!(await isOursByAncestry(asking)) || isClosed) return;
      // Told before it is done: a rejection may end the turn at once.
      const what = clip(`${question} of session ${asking}`);
      report({ kind: "question_rejected", evidence: evidence("question_rejected", "http", what) });
      const answer = await api.rejectQuestion(question);
      if (answer.status < 300) return;
      detail = `a question could not be rejected: status ${answer.status}`;
    } catch (error) {
      detail = clip(`a question could not be rejected: ${asHoldfastError(error).message}`);
    }
    report({
      kind: "permission_unresolved",
      code: "QUESTION_UNSUPPORTED",
      detail,
      evidence: evidence("question", "http", detail),
    });
  }
}
