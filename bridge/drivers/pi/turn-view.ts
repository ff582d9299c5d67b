/**
 * One turn as pi's messages show it. Pure: messages in, changes out.
 *
 *   prompt ─▶ (compaction) ─▶ agent_start ─▶ message_start(user, our text) ─▶ answers and tools ─▶ agent_end
 *                                   ▲                                                               │
 *                                   └── auto_retry, compaction with willRetry, queued work ◀────────┤
 *                                                                                                   ▼
 *                                                                                             agent_settled
 *
 * `agent_end` ends one attempt; `agent_settled` alone is the end. The last answer decides how it ended: an `error` or an
 * `aborted` one is never an empty success. What an attempt that is made again had said is withdrawn: pi keeps it out of
 * the conversation too.
 */
import { clip } from "../../../protocol/errors.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { NativeStatus } from "../../../protocol/settlement.ts";
import { addUsage, NO_USAGE, type Usage } from "../../../protocol/usage.ts";
import { withoutAddresses } from "../addresses.ts";
import type { NativeError } from "../driver.ts";
import { providerError } from "./native-error.ts";
import { type Message, type NativeMessage, textOf } from "./native-message.ts";
import { messageUsage, tokensUsage } from "./native-usage.ts";

export type ViewChange =
  | { kind: "own_event"; what: string }
  | { kind: "text"; part: string; from: number; text: string }
  | { kind: "withdrawn"; part: string }
  | {
      kind: "tool";
      call: string;
      tool: string;
      status: "running" | "completed" | "failed";
      title: string;
    }
  | { kind: "waiting"; reason: string; attempt: number; delayMs: number }
  /** The provider or a tool goes on. */
  | { kind: "progress" }
  /** An attempt ended, and pi announced no further one: the end must come. */
  | { kind: "end_expected" }
  | { kind: "end_not_expected" }
  | { kind: "settled"; end: ViewEnd };

export interface ViewEnd {
  status: NativeStatus;
  error: NativeError | null;
  usage: Usage;
  /** The last answer's own time, by which the records are asked for it; null when there was none. */
  answeredAt: number | null;
}

export interface TurnView {
  take(message: NativeMessage): ViewChange[];
}

/** What ends a turn well; `toolUse` when a tool ended it. Anything else but `aborted` is a failure. */
const GOOD_STOPS: ReadonlySet<string> = new Set(["stop", "length", "toolUse"]);

/** @param ownText the prompt, by which the turn's own message is known */
export function createTurnView(ownText: string): TurnView {
  let isOurs = false;
  let hasSettled = false;
  /** Answers so far: numbers the parts. */
  let answers = 0;
  /** The current answer's blocks as told: how much, and what, unless that is beyond what anybody keeps. */
  const told = new Map<number, { chars: number; text: string | null }>();
  let last: Message | null = null;
  let isAnswering = false;
  let usage: Usage | null = null;

  const partOf = (block: number) => `${answers}.${block}`;

  /** Tells a block's whole text, as a change of what was told before. */
  function tell(block: number, text: string): ViewChange[] {
    const before = told.get(block);
    if (before !== undefined && (before.text === null ? before.chars === text.length : before.text === text))
      return [];
    told.set(block, { chars: text.length, text: kept(text) });
    const from = commonLength(before?.text ?? "", text);
    return [{ kind: "text", part: partOf(block), from, text: text.slice(from) }];
  }

  /** Nothing is compared: an answer may come in a hundred thousand pieces. */
  function append(block: number, delta: string): ViewChange[] {
    const { chars, text } = told.get(block) ?? { chars: 0, text: "" };
    told.set(block, { chars: chars + delta.length, text: text === null ? null : kept(text + delta) });
    return [{ kind: "text", part: partOf(block), from: chars, text: delta }];
  }

  function untell(block: number): ViewChange {
    told.delete(block);
    return { kind: "withdrawn", part: partOf(block) };
  }

  function withdraw(): ViewChange[] {
    return [...told.keys()].map(untell);
  }

  function start(): void {
    isAnswering = true;
    answers += 1;
    told.clear();
  }

  /** The finished answer is what counts, whatever was streamed. */
  function finish(message: Message): ViewChange[] {
    if (!isAnswering) start();
    isAnswering = false;
    last = message;
    count(messageUsage(message));
    const blocks = typeof message.content === "string" ? [] : (message.content ?? []);
    const texts = new Map(
      blocks.flatMap(({ type, text }, at) => (type === "text" ? [[at, text ?? ""] as const] : [])),
    );
    return [
      ...[...told.keys()].filter((block) => !texts.has(block)).map(untell),
      ...[...texts].flatMap(([block, text]) => tell(block, text)),
      ...(message.stopReason === "error" ? [] : [{ kind: "progress" as const }]),
    ];
  }

  function update(
    event: Extract<NativeMessage, { type: "message_update" }>["assistantMessageEvent"],
  ): ViewChange[] {
    const { type, contentIndex: block, delta, content } = event;
    const progress: ViewChange = { kind: "progress" };
    if (block === undefined) return [progress];
    if (type === "text_delta") return [progress, ...append(block, delta ?? "")];
    if (type === "text_end" && content !== undefined) return [progress, ...tell(block, content)];
    return [progress];
  }

  function count(more: Usage | null): void {
    if (more !== null) usage = usage === null ? more : addUsage(usage, more);
  }

  function settle(wasAborted: boolean): ViewChange[] {
    hasSettled = true;
    const { status, error } = verdict(last, wasAborted);
    const end: ViewEnd = { status, error, usage: usage ?? NO_USAGE, answeredAt: last?.timestamp ?? null };
    return [{ kind: "end_not_expected" }, { kind: "settled", end }];
  }

  function begin(what: string): ViewChange[] {
    if (isOurs) return [];
    isOurs = true;
    return [{ kind: "own_event", what }];
  }

  function waiting(retry: {
    attempt: number;
    delayMs: number;
    errorMessage?: string | undefined;
  }): ViewChange {
    const { attempt, delayMs, errorMessage = "the provider failed" } = retry;
    return { kind: "waiting", reason: clip(withoutAddresses(errorMessage)), attempt, delayMs };
  }

  function take(message: NativeMessage): ViewChange[] {
    if (hasSettled) return [];
    if (!isOurs) {
      // Before the prompt pi may compact; the session was idle, so it does that for this prompt.
      if (message.type === "compaction_start") return begin("compaction_start");
      if (message.type !== "message_start" && message.type !== "message_end") return [];
      const isOwn = message.message.role === "user" && textOf(message.message) === ownText;
      return isOwn ? begin(message.type) : [];
    }
    switch (message.type) {
      case "message_start":
        if (message.message.role === "assistant") start();
        return [];
      case "message_update":
        return update(message.assistantMessageEvent);
      case "message_end":
        return message.message.role === "assistant" ? finish(message.message) : [];
      case "tool_execution_start": {
        const { toolCallId: call, toolName: tool, args } = message;
        return [{ kind: "progress" }, { kind: "tool", call, tool, status: "running", title: titleOf(args) }];
      }
      case "tool_execution_update":
        return [{ kind: "progress" }];
      case "tool_execution_end": {
        const { toolCallId: call, toolName: tool, isError = false } = message;
        return [
          { kind: "progress" },
          { kind: "tool", call, tool, status: isError ? "failed" : "completed", title: "" },
        ];
      }
      case "auto_retry_start":
        return [{ kind: "end_not_expected" }, ...withdraw(), waiting(message)];
      case "summarization_retry_scheduled":
        return [{ kind: "end_not_expected" }, waiting(message)];
      case "compaction_start":
        return [{ kind: "end_not_expected" }, { kind: "progress" }];
      case "compaction_end":
        if (message.result?.usage !== undefined) count(tokensUsage(message.result.usage));
        // What it recovers from is left out of the conversation; without that, nothing more comes but the end.
        return message.willRetry === true
          ? [{ kind: "progress" }, ...withdraw()]
          : [{ kind: "progress" }, { kind: "end_expected" }];
      case "agent_start":
        return [{ kind: "end_not_expected" }];
      case "agent_end":
        return message.willRetry === true ? [] : [{ kind: "end_expected" }];
      case "agent_settled":
        return settle(message.aborted === true);
      // The session's and the desks'.
      case "response":
      case "extension_ui_request":
      case "extension_error":
        return [];
      default: {
        const never: never = message;
        throw new TypeError(`message ${String(never)} is not handled`);
      }
    }
  }

  return { take };
}

function verdict(last: Message | null, wasAborted: boolean): Pick<ViewEnd, "status" | "error"> {
  if (wasAborted || last?.stopReason === "aborted") return { status: "aborted", error: null };
  if (last === null) {
    return { status: "failed", error: { name: "NoAnswer", message: "the CLI ended without an answer" } };
  }
  if (last.stopReason !== undefined && GOOD_STOPS.has(last.stopReason))
    return { status: "completed", error: null };
  return {
    status: "failed",
    error: providerError(last.errorMessage ?? `the answer ended with ${last.stopReason ?? "no reason"}`),
  };
}

/** What a call acts on, for whoever watches. */
function titleOf(args: unknown): string {
  if (typeof args !== "object" || args === null) return "";
  const { command, path } = args as { command?: unknown; path?: unknown };
  if (typeof command === "string") return command;
  return typeof path === "string" ? path : "";
}

const kept = (text: string) => (text.length > LIMITS.outputChars ? null : text);

function commonLength(a: string, b: string): number {
  if (b.startsWith(a)) return a.length;
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
