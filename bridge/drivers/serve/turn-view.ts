/**
 * What the native events say about one turn. Pure: fed events, returns observations; no clock, no calls.
 *
 * The checked rule of settlement (facts `opencode-kilo`, 3.4): an idle of the root is the end only when the turn's own
 * user message was seen, the root was busy after it, no assistant message of the root is open, and every descendant is
 * quiet. Only the root and sessions that it reported move a turn.
 */
import { clip } from "../../../protocol/errors.ts";
import type { Ancestry } from "../../../protocol/question.ts";
import type { NativeStatus } from "../../../protocol/settlement.ts";
import { NO_USAGE, sumUsage, type Usage } from "../../../protocol/usage.ts";
import type { NativeError, Observation } from "../driver.ts";
import type { NativeEvent, NativeMessage, NativePart, NativeStatusInfo } from "./native-event.ts";
import { createTextBook, type TextChange } from "./text-book.ts";

/** What an event meant for the turn. The resident adds evidence, clocks and calls. */
export type ViewChange =
  | TextChange
  | { kind: "own_event" }
  | Extract<Observation, { kind: "tool" }>
  /** The root, or a session under it, waits. */
  | (Extract<Observation, { kind: "waiting" }> & { session: string })
  /** An error or an idle that may not be the last word. */
  | { kind: "end_expected" }
  /** The turn goes on after all. */
  | { kind: "end_not_expected" }
  /** The root was found at work on something that nobody asked for, or has ended it; ours waits behind it. */
  | { kind: "other_work"; state: "started" | "ended" }
  | Omit<Extract<Observation, { kind: "native_end" }>, "evidence">;

export interface TurnView {
  take(event: NativeEvent): ViewChange[];
  /** The session is the root's or one that the root's turn reported. */
  isOurs(session: string): boolean;
  /** Sessions under the root that are not idle. */
  busyDescendants(): string[];
  /** Takes a session as the root's whose creation was not seen: it was found by asking for its parents. */
  adopt(session: string, parent: string, title: string): void;
  /** From the session up to the root, each with the title that the CLI gave it. */
  ancestry(session: string): Ancestry;
  /** Takes the server's word that these sessions are idle: one that was created and never ran sends no event. */
  quiet(sessions: Iterable<string>): ViewChange[];
  /** The tool call was not seen to end. */
  isAtWork(session: string, call: string): boolean;
  /** Messages whose parts wait for a role. */
  messagesWithoutRole(): string[];
  lastError(): NativeError | null;
  /** The root was busy with this turn's message. */
  hasStarted(): boolean;
}

/**
 * @param isBracketed the CLI opens and closes each turn by events of its own (Kilo): the end needs the closed bracket too
 * @param isAtOtherWork the root already works on something that nobody asked for; its end is not this turn's
 */
export function createTurnView(
  root: string,
  ownMessage: string,
  earlierMessages: ReadonlySet<string>,
  isBracketed = false,
  isAtOtherWork = false,
): TurnView {
  const descendants = new Map<string, "busy" | "idle">();
  const kin = new Map<string, { parent: string; title: string }>();
  let bracket: "none" | "open" | "closed" = "none";
  /** The last closed bracket was closed since another message took the turn over. */
  let wasSuperseded = false;
  /** The root's assistant messages in the order in which they were first seen, each in its latest form. */
  const answers = new Map<string, NativeMessage>();
  /** Messages that an answer of this turn may answer: its own, and what the CLI itself put in behind it (a compaction). */
  const asked = new Set<string>([ownMessage]);
  let ownCreatedAt = 0;
  let isOtherWorkTold = false;
  const tools = new Map<string, string>();
  const texts = createTextBook(earlierMessages);
  let sawOwnMessage = false;
  let sawBusy = false;
  /** The last word of the root was an idle with none of its assistant messages open. */
  let isRootIdle = false;
  let hasEnded = false;
  let sessionError: NativeError | null = null;

  function take(event: NativeEvent): ViewChange[] {
    if (hasEnded) return [];
    const changes = read(event);
    return isFinal() ? [...changes, finish()] : changes;
  }

  function read(event: NativeEvent): ViewChange[] {
    switch (event.type) {
      case "session.created": {
        const { id, parentID, title } = event.properties.info;
        if (sawOwnMessage && parentID != null && isOurs(parentID)) adopt(id, parentID, title ?? "");
        return [];
      }
      case "session.status":
        return onStatus(event.properties.sessionID, event.properties.status);
      case "session.idle":
        return onIdle(event.properties.sessionID);
      case "session.error":
        return onError(event.properties.sessionID, event.properties.error);
      case "message.updated":
        return onMessage(event.properties.info, event.properties.sessionID);
      case "message.part.updated":
        return onPart(event.properties.part, event.properties.sessionID);
      case "message.part.delta": {
        const { sessionID, messageID, partID, field, delta } = event.properties;
        if (sessionID !== root || field !== "text") return [];
        return texts.delta(messageID, partID, delta);
      }
      // The resident's, the subscription's and the active turn's.
      case "server.connected":
      case "server.heartbeat":
      case "server.instance.disposed":
      case "tui.toast.show":
      case "permission.asked":
      case "permission.replied":
      case "question.asked":
      case "question.replied":
      case "question.rejected":
      case "session.network.asked":
      case "session.network.replied":
      case "session.network.rejected":
        return [];
      case "session.turn.open":
      case "session.turn.close":
        if (event.properties.sessionID !== root || !sawOwnMessage) return [];
        bracket = event.type === "session.turn.open" ? "open" : "closed";
        wasSuperseded = event.type === "session.turn.close" && event.properties.reason === "superseded";
        return [];
      case "message.removed":
        if (event.properties.sessionID !== root) return [];
        answers.delete(event.properties.messageID);
        return texts.removeMessage(event.properties.messageID);
      case "message.part.removed":
        return event.properties.sessionID === root ? texts.removePart(event.properties.partID) : [];
      default: {
        const never: never = event;
        throw new TypeError(`event ${String(never)} is not handled`);
      }
    }
  }

  function adopt(session: string, parent: string, title: string): void {
    if (isOurs(session)) return;
    descendants.set(session, "busy");
    kin.set(session, { parent, title });
  }

  function isOurs(session: string): boolean {
    return session === root || descendants.has(session);
  }

  function onStatus(session: string, status: NativeStatusInfo): ViewChange[] {
    if (descendants.has(session)) {
      descendants.set(session, status.type === "idle" ? "idle" : "busy");
      return status.type === "idle" || status.type === "busy" ? [] : [waiting(session, status)];
    }
    if (session !== root) return [];
    if (status.type === "idle") return onIdle(session);
    isRootIdle = false;
    if (!sawOwnMessage) {
      isAtOtherWork = true;
      return [];
    }
    sawBusy = true;
    // It was not the end: an overflow that compaction cures, or a word of the turn before.
    sessionError = null;
    const goesOn: ViewChange = { kind: "end_not_expected" };
    if (status.type === "busy") return [goesOn];
    // A retry: the text of the attempt that was cut is not part of the answer.
    return [goesOn, ...texts.withdrawUnfinished(), waiting(session, status)];
  }

  function onIdle(session: string): ViewChange[] {
    if (descendants.has(session)) descendants.set(session, "idle");
    if (session !== root) return [];
    if (isAtOtherWork) {
      // The end of that, and not of this turn: what it waits for is its own busy.
      sawBusy = false;
      return endOtherWork();
    }
    if (!sawOwnMessage || !sawBusy) return [];
    // On a failure and on an abort a first idle comes while the message is still open: another one follows.
    isRootIdle = ![...answers.values()].some(({ time }) => time.completed === undefined);
    return [{ kind: "end_expected" }];
  }

  function onError(
    session: string | undefined,
    error: { name: string; data?: { message?: string | undefined } | undefined } | undefined,
  ): ViewChange[] {
    if (session !== root || error === undefined) return [];
    sessionError = nativeError(error);
    return [{ kind: "end_expected" }];
  }

  function onMessage(message: NativeMessage, session: string): ViewChange[] {
    if (session !== root || earlierMessages.has(message.id)) return [];
    const changes: ViewChange[] = [];
    // An answer to our message is as good as the message itself.
    if ((message.id === ownMessage || message.parentID === ownMessage) && !sawOwnMessage) {
      sawOwnMessage = true;
      changes.push({ kind: "own_event" });
    }
    if (message.role === "user") {
      if (message.id === ownMessage) ownCreatedAt = message.time.created;
      // An older one may be told again, with what became of it.
      else if (sawOwnMessage && message.time.created >= ownCreatedAt) asked.add(message.id);
      return [...changes, ...texts.declare(message.id, "user", false)];
    }
    if (!sawOwnMessage) return [];
    if (message.parentID !== undefined && !asked.has(message.parentID)) {
      // The CLI went on with something by itself when our message came; until that ends, or ours is answered.
      return [...changes, ...noteOtherWork(), ...texts.declare(message.id, "user", false)];
    }
    answers.set(message.id, message);
    return [
      ...changes,
      ...endOtherWork(),
      ...texts.declare(message.id, "assistant", message.summary === true),
    ];
  }

  function noteOtherWork(): ViewChange[] {
    if (answers.size > 0) return [];
    isAtOtherWork = true;
    if (isOtherWorkTold) return [];
    isOtherWorkTold = true;
    return [{ kind: "other_work", state: "started" }];
  }

  function endOtherWork(): ViewChange[] {
    isAtOtherWork = false;
    if (!isOtherWorkTold) return [];
    isOtherWorkTold = false;
    return [{ kind: "other_work", state: "ended" }];
  }

  function onPart(part: NativePart, session: string): ViewChange[] {
    if (part.type === "tool" && isOurs(session)) return onTool(part, session);
    return session === root ? texts.part(part) : [];
  }

  function onTool(part: NativePart, session: string): ViewChange[] {
    const status = TOOL_STATUS[part.state?.status ?? ""];
    const call = part.callID;
    if (status === undefined || call === undefined || earlierMessages.has(part.messageID)) return [];
    const key = `${session} ${call}`;
    if (tools.get(key) === status) return [];
    tools.set(key, status);
    return [{ kind: "tool", session, call, tool: part.tool ?? "?", status, title: part.state?.title ?? "" }];
  }

  function isFinal(): boolean {
    if (!isRootIdle || !sawOwnMessage || !sawBusy) return false;
    if (isBracketed && bracket !== "closed") return false;
    return [...descendants.values()].every((state) => state === "idle");
  }

  function finish(): ViewChange {
    hasEnded = true;
    const lastAssistant = [...answers.values()].at(-1) ?? null;
    // In the middle of its tools it had no last word of its own.
    const wasCut = wasSuperseded && lastAssistant?.finish === "tool-calls";
    const error =
      lastAssistant?.error !== undefined ? nativeError(lastAssistant.error) : wasCut ? SUPERSEDED : null;
    return {
      kind: "native_end",
      status: wasCut ? "failed" : statusOf(lastAssistant, error ?? sessionError),
      error: error ?? (lastAssistant === null ? sessionError : null),
      tail:
        lastAssistant === null
          ? { role: "user", id: ownMessage }
          : { role: "assistant", id: lastAssistant.id },
      usage: sumUsage([...answers.values()].map(messageUsage)),
    };
  }

  return {
    take,
    isOurs,
    busyDescendants: () => [...descendants].flatMap(([id, state]) => (state === "busy" ? [id] : [])),
    messagesWithoutRole: texts.undeclared,
    quiet(sessions) {
      if (hasEnded) return [];
      for (const session of sessions) if (descendants.has(session)) descendants.set(session, "idle");
      return isFinal() ? [finish()] : [];
    },
    adopt,
    ancestry(session) {
      const path: Ancestry = [];
      let at: string | undefined = session;
      while (at !== undefined && path.length < 32) {
        const known = kin.get(at);
        path.push({ session: at, title: clip(known?.title ?? "", 200) });
        at = known?.parent;
      }
      return path;
    },
    isAtWork(session, call) {
      const status = tools.get(`${session} ${call}`);
      return status !== "completed" && status !== "failed";
    },
    lastError: () => sessionError,
    hasStarted: () => sawBusy,
  };
}

const SUPERSEDED: NativeError = {
  name: "TurnSuperseded",
  message: "the CLI went on to another message before the turn's tools had their answer",
};

function waiting(session: string, status: NativeStatusInfo): ViewChange {
  return {
    kind: "waiting",
    session,
    reason: status.message ?? status.type,
    attempt: status.attempt ?? 0,
    nextAt: status.next ?? null,
  };
}

const TOOL_STATUS: Readonly<Record<string, "running" | "completed" | "failed">> = {
  running: "running",
  completed: "completed",
  error: "failed",
};

/** Judged by the last assistant message; an error of the session counts only where there is none. */
function statusOf(last: NativeMessage | null, error: NativeError | null): NativeStatus {
  const name = last === null ? error?.name : last.error?.name;
  if (name !== undefined) return name === "MessageAbortedError" ? "aborted" : "failed";
  // No message at all is never an empty success; and an aborted retry completes its message with no `finish`.
  if (last === null) return "failed";
  if (last.finish === undefined) return error === null ? "aborted" : "failed";
  return "completed";
}

/** Name and message only: bodies, headers and addresses of the provider stay here. */
function nativeError(error: {
  name: string;
  data?: { message?: string | undefined } | undefined;
}): NativeError {
  return { name: error.name, message: error.data?.message ?? "" };
}

function messageUsage(message: NativeMessage): Usage {
  const { tokens } = message;
  // Without a statement of the provider the CLI says zero of everything: nothing is known then (law 11).
  const counts = [
    tokens?.input,
    tokens?.output,
    tokens?.reasoning,
    tokens?.cache?.read,
    tokens?.cache?.write,
  ];
  if (tokens === undefined || !counts.some((count) => count !== undefined && count > 0)) {
    return { ...NO_USAGE, source: "cli" };
  }
  return {
    source: "cli",
    inputTokens: tokens.input ?? null,
    outputTokens: tokens.output ?? null,
    reasoningTokens: tokens.reasoning ?? null,
    cacheReadTokens: tokens.cache?.read ?? null,
    cacheWriteTokens: tokens.cache?.write ?? null,
  };
}
