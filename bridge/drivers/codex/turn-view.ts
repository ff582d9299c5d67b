/**
 * What codex's events mean for the active turn. Pure: fed and returning; timers, calls and evidence are the turn's.
 *
 *   turn/start ─▶ answer with the turn's id ─▶ turn/started ─▶ items, deltas, tokenUsage ─▶ turn/completed
 *                                                  │                │
 *                                                  │                └ error{willRetry} ─▶ the open text is taken back
 *                                                  └ turn/started of a subagent's thread, whose rootTurnId is ours
 *
 * Only the main thread's turn with our id counts; a subagent's work is told, its text and its end are not ours. Events
 * of the main thread that come before the id is known are held (the answer is ahead of them on the pipe, measured).
 */
import type { TailReference } from "../../../protocol/locator.ts";
import type { NativeStatus } from "../../../protocol/settlement.ts";
import type { Usage } from "../../../protocol/usage.ts";
import type { NativeError, Observation } from "../driver.ts";
import { createFamily, type Family } from "./family.ts";
import { nativeError, waitingReason } from "./native-error.ts";
import type { Item, NativeEvent, TokenUsage } from "./native-message.ts";
import { createTextParts, type TextChange } from "./text-parts.ts";
import { endOf, toolOf } from "./tool-items.ts";
import { createUsageBook } from "./usage-book.ts";

/** Events held before the turn's id is known. Beyond: dropped; the turn then ends by its limits. */
const HELD = 1000;

export type ViewChange =
  | TextChange
  | { kind: "own_event"; what: string }
  | Extract<Observation, { kind: "tool" }>
  /** The thread waits for its provider, for the so manieth time since it last got on. */
  | { kind: "waiting"; session: string; reason: string; attempt: number }
  | { kind: "progress"; session: string }
  /** Codex gave the turn up, or is idle: its end must follow. */
  | { kind: "end_expected"; error: NativeError | null }
  | {
      kind: "ended";
      status: NativeStatus;
      error: NativeError | null;
      tail: TailReference;
      usage: Usage;
    };

export interface TurnViewOptions {
  root: string;
  /** Our id for the user's message. */
  message: string;
  /** The thread's figures before the turn. */
  usageBefore: TokenUsage | null;
}

export interface TurnView {
  take(event: NativeEvent): ViewChange[];
  /** The id of our turn is known, or codex says that another one is the active turn. */
  adopt(turn: string): ViewChange[];
  turnId(): string | null;
  /** Whether the event, or a request, of this thread and turn is our turn's; held ones are. */
  isOurs(thread: string, turn: string | null): boolean;
  /** Threads with commands whose end has not been seen, subagents' too. */
  threadsAtCommands(): string[];
  /** What a patch would change, by the item of its call. */
  pathsOf(item: string): string[];
  readonly family: Family;
}

export function createTurnView({ root, message, usageBefore }: TurnViewOptions): TurnView {
  const family = createFamily(root);
  const texts = createTextParts();
  const usage = createUsageBook(usageBefore);
  const attempts = new Map<string, number>();
  /** By thread and item: the thread. */
  const commands = new Map<string, string>();
  const paths = new Map<string, string[]>();
  let held: NativeEvent[] = [];
  let id: string | null = null;
  let hasBegun = false;
  let hasEnded = false;
  let lastError: NativeError | null = null;

  function isOurs(thread: string, turn: string | null): boolean {
    if (thread !== root) return turn !== null && family.holds(thread, turn);
    return id === null || turn === null || turn === id;
  }

  function begin(what: string): ViewChange[] {
    if (hasBegun) return [];
    hasBegun = true;
    return [{ kind: "own_event", what }];
  }

  function progress(session: string): ViewChange[] {
    attempts.delete(session);
    return [{ kind: "progress", session }];
  }

  function onItem(session: string, item: Item, isEnd: boolean): ViewChange[] {
    const isRoot = session === root;
    family.called(session, item);
    if (item.type === "fileChange") {
      if (isEnd) paths.delete(item.id);
      else paths.set(item.id, changedPaths(item));
    }
    if (isRoot && item.type === "userMessage" && item.clientId === message) return begin("own_user_message");
    if (isRoot && item.type === "agentMessage")
      return isEnd ? texts.completed(item.id, item.text ?? "") : texts.started(item.id);
    const tool = toolOf(item);
    if (tool === null) return [];
    if (item.type === "commandExecution") {
      if (isEnd) commands.delete(`${session} ${item.id}`);
      else commands.set(`${session} ${item.id}`, session);
    }
    return [{ kind: "tool", session, call: item.id, ...tool, status: isEnd ? endOf(item) : "running" }];
  }

  function onError(params: Extract<NativeEvent, { method: "error" }>["params"]): ViewChange[] {
    const { threadId: session, error, willRetry } = params;
    const isRoot = session === root;
    if (isRoot) usage.failed();
    if (!willRetry) {
      if (!isRoot) return [];
      lastError = nativeError(error);
      return [{ kind: "end_expected", error: lastError }];
    }
    const attempt = (attempts.get(session) ?? 0) + 1;
    attempts.set(session, attempt);
    return [
      ...(isRoot ? texts.withdrawOpen() : []),
      { kind: "waiting", session, reason: waitingReason(error), attempt },
    ];
  }

  function onEnd(params: Extract<NativeEvent, { method: "turn/completed" }>["params"]): ViewChange[] {
    const { threadId, turn } = params;
    if (threadId !== root) {
      family.ended({ thread: threadId, turn: turn.id });
      return progress(threadId);
    }
    // Not one of the three ends: it goes on.
    const status = STATUS[turn.status];
    if (status === undefined) return [];
    hasEnded = true;
    const stated = turn.error == null ? null : nativeError(turn.error);
    return [
      {
        kind: "ended",
        status,
        error: stated ?? (status === "failed" ? lastError : null),
        tail: { role: texts.hasAnswer() ? "assistant" : "user", id: turn.id },
        usage: usage.sum(),
      },
    ];
  }

  function take(event: NativeEvent): ViewChange[] {
    if (hasEnded) return [];
    const { threadId } = event.params;
    if (event.method === "turn/started" && threadId !== root) {
      const { id: turn, rootTurnId = null } = event.params.turn;
      // Without our id there is nothing that it could name.
      if (id !== null && family.began({ thread: threadId, turn }, rootTurnId, id)) return progress(threadId);
      return [];
    }
    if (!isOurs(threadId, turnOf(event))) return [];
    if (id === null && threadId === root) {
      const own = isOwnMessage(event, message) ? turnOf(event) : null;
      if (held.length < HELD) held.push(event);
      return own === null ? [] : adopt(own);
    }
    switch (event.method) {
      case "turn/started":
        return [...begin("turn_started"), ...progress(threadId)];
      case "turn/completed":
        return onEnd(event.params);
      case "item/started":
        return [...progress(threadId), ...onItem(threadId, event.params.item, false)];
      case "item/completed":
        return [...progress(threadId), ...onItem(threadId, event.params.item, true)];
      case "item/agentMessage/delta":
        return [
          ...progress(threadId),
          ...(threadId === root ? texts.delta(event.params.itemId, event.params.delta) : []),
        ];
      case "thread/tokenUsage/updated":
        // It also follows a request that failed: no progress.
        if (threadId === root) usage.update(event.params.tokenUsage);
        return [];
      case "thread/status/changed":
        return threadId === root && hasBegun && event.params.status.type === "idle"
          ? [{ kind: "end_expected", error: lastError }]
          : [];
      case "error":
        return onError(event.params);
      case "serverRequest/resolved":
        return [];
      case "other":
        return progress(threadId);
      default: {
        const never: never = event;
        throw new TypeError(`event ${String(never)} is not handled`);
      }
    }
  }

  function adopt(turn: string): ViewChange[] {
    id = turn;
    const waiting = held;
    held = [];
    return waiting.flatMap(take);
  }

  return {
    take,
    adopt,
    turnId: () => id,
    isOurs,
    threadsAtCommands: () => [...new Set(commands.values())],
    pathsOf: (item) => paths.get(item) ?? [],
    family,
  };
}

const STATUS: Readonly<Record<string, NativeStatus>> = {
  completed: "completed",
  failed: "failed",
  interrupted: "aborted",
};

/** The turn that an event names; null for one of the whole thread. */
export function turnOf(event: NativeEvent): string | null {
  switch (event.method) {
    case "turn/started":
    case "turn/completed":
      return event.params.turn.id;
    case "thread/status/changed":
    case "serverRequest/resolved":
      return null;
    case "item/started":
    case "item/completed":
    case "item/agentMessage/delta":
    case "thread/tokenUsage/updated":
    case "error":
    case "other":
      return event.params.turnId;
  }
}

function isOwnMessage(event: NativeEvent, message: string): boolean {
  return (
    (event.method === "item/started" || event.method === "item/completed") &&
    event.params.item.type === "userMessage" &&
    event.params.item.clientId === message
  );
}

function changedPaths({ changes = [] }: Item): string[] {
  return changes.flatMap(({ path, kind }) => (kind?.move_path == null ? [path] : [path, kind.move_path]));
}
