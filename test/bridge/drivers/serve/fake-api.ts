// The server's API without a server: what is pending, who is whose child, and every reply that came, in order.
import type { LaunchRequest } from "../../../../bridge/drivers/driver.ts";
import type { PendingPermission, ServeApi } from "../../../../bridge/drivers/serve/api.ts";
import type { Answer } from "../../../../bridge/drivers/serve/loopback-http.ts";
import type { NativeEvent, NativeQuestion } from "../../../../bridge/drivers/serve/native-event.ts";
import { DEFAULT_LIMITS, type DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Clock } from "../../../../protocol/clock.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { LAUNCH } from "../../../support/samples.ts";
import { on, permission } from "./native.ts";

export interface FakeApi extends ServeApi {
  /** `permission ID once`, `question ID [["blue"]]`, `network ID retry`, `session ID`, `list permissions`, … in order. */
  readonly calls: string[];
  readonly permissions: PendingPermission[];
  readonly questions: NativeQuestion[];
  readonly network: Array<{ id: string; sessionID: string }>;
  /** Parent of each session that a look-up finds. */
  readonly parents: Map<string, string | null>;
  busy: string[];
  /** Ids of all that was ever raised. */
  readonly raised: Set<string>;
  /** Calls that answer with an error, by the first word of their line in `calls`. */
  readonly broken: Set<string>;
  /** Calls of replies alone, those that must be one each. */
  replies(): string[];
  /** A request that is raised: it is in the list from now on. Gives its event, for who wants to tell it. */
  raise(session: string, id: string, call?: string): NativeEvent;
  ask(session: string, id: string, items?: unknown[]): NativeEvent;
  park(session: string, id: string, message?: string): NativeEvent;
}

/** `tell` gets the events that the replies cause; left out, nothing but the list tells. */
export function createFakeApi(tell: (event: NativeEvent) => void = () => undefined): FakeApi {
  const calls: string[] = [];
  const permissions: PendingPermission[] = [];
  const questions: NativeQuestion[] = [];
  const network: FakeApi["network"] = [];
  const parents = new Map<string, string | null>();
  const broken = new Set<string>();
  const raised = new Set<string>();
  const done: Answer = { status: 200, json: true };
  const unknown: Answer = { status: 404, json: null };

  async function call(line: string): Promise<void> {
    calls.push(line);
    if (broken.has(line.split(" ")[0] ?? "")) throw new Error(`${line}: answered 500`);
  }

  /** Takes the latest of this id out of the list: the call names no session. */
  function take<T extends { id: string }>(list: T[], id: string): T | undefined {
    const at = list.findLastIndex((one) => one.id === id);
    return at < 0 ? undefined : list.splice(at, 1)[0];
  }

  const unused = async (): Promise<never> => {
    throw new Error("not a call that a turn makes");
  };

  return {
    calls,
    permissions,
    questions,
    network,
    parents,
    busy: [],
    raised,
    broken,
    forkSession: unused,
    replies: () => calls.filter((line) => /^(permission|question|network) /.test(line)),
    raise(session, id, callId) {
      raised.add(id);
      permissions.push(permission(session, id, callId));
      return on.asked(session, id, callId);
    },
    ask(session, id, items) {
      raised.add(id);
      const event = on.question(session, id, items);
      if (event.type === "question.asked") questions.push(event.properties);
      return event;
    },
    park(session, id, message) {
      network.push({ id, sessionID: session });
      return on.offline(session, id, message);
    },
    async session(id) {
      await call(`session ${id}`);
      if (!parents.has(id)) return null;
      return { id, directory: "/w", parentID: parents.get(id) ?? null, title: `task ${id}` };
    },
    async busySessions() {
      await call("status");
      return this.busy;
    },
    async replyPermission(id, reply) {
      await call(`permission ${id} ${reply}`);
      const found = take(permissions, id);
      if (found === undefined) return unknown;
      tell(on.replied(found.sessionID, id, reply));
      return done;
    },
    async pendingPermissions() {
      await call("list permissions");
      return [...permissions];
    },
    async answerQuestion(id, answers) {
      await call(`question ${id} ${JSON.stringify(answers)}`);
      const found = take(questions, id);
      if (found === undefined) return unknown;
      tell(
        answers === null ? on.questionRejected(found.sessionID, id) : on.questionReplied(found.sessionID, id),
      );
      return done;
    },
    async pendingQuestions() {
      await call("list questions");
      return [...questions];
    },
    async replyNetwork(id, reply) {
      await call(`network ${id} ${reply}`);
      const found = take(network, id);
      if (found === undefined) return unknown;
      tell(
        reply === "retry" ? on.networkReplied(found.sessionID, id) : on.networkRejected(found.sessionID, id),
      );
      return done;
    },
    async pendingNetwork() {
      await call("list network");
      return [...network];
    },
    health: unused,
    createSession: unused,
    messages: unused,
    prompt: unused,
    abort: unused,
    publishCanary: unused,
  };
}

/** What of a launch a turn looks at; the rest is not there. */
export function turnRequest(
  clock: Clock,
  options: { policy?: Partial<MemberPolicy>; limits?: Partial<DriverLimits>; warnings?: string[] } = {},
): LaunchRequest {
  return {
    clock,
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    log: {
      info: () => undefined,
      warn: (what: string) => options.warnings?.push(what),
    },
    launch: { ...LAUNCH, permissions: { ...ALLOW_ALL, ...options.policy } },
  } as unknown as LaunchRequest;
}
