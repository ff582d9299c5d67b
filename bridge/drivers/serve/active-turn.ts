/**
 * The active turn of a resident: feeds the pure view, keeps its timers, its requests and the sessions under it, and
 * hands on observations. Ends with `close`, after which nothing of it is reported or answered any more.
 */
import { watchSilence } from "../../../protocol/clock.ts";
import { asHoldfastError, clip } from "../../../protocol/errors.ts";
import type { Evidence } from "../../../protocol/evidence.ts";
import type { PermissionReply } from "../../../protocol/permission.ts";
import type { QuestionAnswers } from "../../../protocol/question.ts";
import type { LaunchRequest, Observation } from "../driver.ts";
import { createProviderWaits } from "../provider-waits.ts";
import type { ServeApi } from "./api.ts";
import type { NativeEvent } from "./native-event.ts";
import type { ServeTraits } from "./traits.ts";
import { openTurnRequests, type Pending } from "./turn-requests.ts";
import { createTurnView, type ViewChange } from "./turn-view.ts";

/** How often, and how far apart, a session's parents are looked up before it is called a stranger's. */
const ANCESTRY_TRIES = 4;
const ANCESTRY_WAIT_MS = 100;
/** Levels of Task children that are followed. */
const ANCESTRY_DEPTH = 32;

export interface ActiveTurnOptions {
  api: ServeApi;
  traits: ServeTraits;
  request: LaunchRequest;
  session: string;
  directory: string;
  ownMessage: string;
  earlierMessages: ReadonlySet<string>;
  /** The root was last seen at work on something that is not this turn. */
  isAtOtherWork: boolean;
  /** The root is found at work, or no more at work, on something that is not this turn. */
  onOtherWork(status: "busy" | "idle"): void;
  evidence(what: string, source: Evidence["source"], detail?: string): Evidence;
  onObservation(observation: Observation): void;
}

export interface ActiveTurn {
  take(event: NativeEvent): void;
  /** Notes the requests that are pending before the prompt goes out. */
  noteGhosts(pending: Pending): void;
  isOurs(session: string): boolean;
  /** The root was busy with this turn's message, or has ended with it. */
  hasStarted(): boolean;
  answerPermission(session: string, id: string, reply: PermissionReply): void;
  answerQuestion(session: string, id: string, answers: QuestionAnswers | null): void;
  /** Returns the ids of the messages that it saw. */
  close(): Iterable<string>;
}

export function openActiveTurn(options: ActiveTurnOptions): ActiveTurn {
  const { api, request, session, evidence, traits } = options;
  const { clock, limits } = request;
  const view = createTurnView(
    session,
    options.ownMessage,
    options.earlierMessages,
    traits.hasTurnBrackets,
    options.isAtOtherWork,
  );
  const messages = new Set<string>([options.ownMessage]);
  let cancelOverdue: (() => void) | null = null;
  const providerWaits = createProviderWaits(clock, limits.providerWaitMs, (reason) =>
    report({ kind: "provider_late", reason, evidence: evidence("provider_late", "bridge", reason) }),
  );
  let isClosed = false;

  const report = (observation: Observation) => {
    if (!isClosed) options.onObservation(observation);
  };

  const requests = openTurnRequests({
    api,
    request,
    directory: options.directory,
    asksForNetwork: traits.asksForNetwork,
    isOurs: isOursByAncestry,
    isAtWork: view.isAtWork,
    ancestry: view.ancestry,
    report,
    onProviderWait: expectProvider,
    onUnresolved: (code, detail) =>
      report({
        kind: "permission_unresolved",
        code,
        detail: clip(detail),
        evidence: evidence("request_unresolved", "http", clip(detail)),
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
    const path: Array<{ id: string; parent: string; title: string }> = [];
    let at: string | null = asking;
    while (at !== null && path.length < ANCESTRY_DEPTH) {
      if (view.isOurs(at)) {
        for (const { id, parent, title } of path) view.adopt(id, parent, title);
        return true;
      }
      const found = await api.session(at);
      const parent: string | null = found?.parentID ?? null;
      if (parent !== null) path.push({ id: at, parent, title: found?.title ?? "" });
      at = parent;
    }
    return false;
  }

  function expectEnd(): void {
    cancelOverdue ??= watchSilence(clock, limits.endOverdueMs, () => {
      cancelOverdue = null;
      const error = view.lastError();
      // Children that are still at work are no overdue end: the turn is simply not over.
      if (view.busyDescendants().length > 0 && error === null) return void askForDescendants();
      report({
        kind: "end_overdue",
        error,
        evidence: evidence("end_overdue", "stream", error?.name ?? "idle, not final"),
      });
    }).stop;
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

  function expectProvider(waiting: string, reason: string): void {
    if (!isClosed) providerWaits.expect(waiting, reason);
  }

  function onChange(change: ViewChange): void {
    switch (change.kind) {
      case "own_event":
        // What was asked in the meantime and missed would wait for ever; event and list together make one reply.
        void requests.catchUp();
        return report({
          kind: "own_event",
          evidence: evidence("own_user_message", "stream", options.ownMessage),
        });
      case "end_expected":
        return expectEnd();
      case "end_not_expected":
        return forgetEnd();
      case "other_work":
        return options.onOtherWork(change.state === "started" ? "busy" : "idle");
      case "native_end": {
        forgetEnd();
        providerWaits.forgetAll();
        requests.close("the turn ended");
        const what = evidence("root_idle_none_open", "stream", change.status);
        return report({ ...change, evidence: [what] });
      }
      case "tool":
        providerWaits.forget(change.session);
        return report({ ...change, title: clip(change.title, 200), tool: change.tool.slice(0, 128) });
      case "waiting": {
        const { session: waiting, ...rest } = change;
        expectProvider(waiting, clip(change.reason));
        return report({ ...rest, reason: clip(change.reason) });
      }
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
      // Reasoning, and what a child writes, are no part of the answer, and are progress all the same.
      if (event.type === "message.part.delta" || event.type === "session.idle") {
        providerWaits.forget(event.properties.sessionID);
      }
      if (requests.take(event)) return;
      for (const change of view.take(event)) onChange(change);
    },
    noteGhosts: requests.noteGhosts,
    isOurs: view.isOurs,
    hasStarted: view.hasStarted,
    answerPermission: requests.answerPermission,
    answerQuestion: requests.answerQuestion,
    close() {
      forgetEnd();
      providerWaits.forgetAll();
      // Its closing reports must still get out.
      requests.close("the turn ended");
      isClosed = true;
      return messages;
    },
  };
}
