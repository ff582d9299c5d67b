/**
 * What Claude Code's messages say about one turn. Pure: fed messages, returns changes; no clock, no pipe.
 *
 * The end (facts `claude-codex-pi`, 1.6): the root's `result`. Where subagents work on behind it, it is the end only when
 * none is left and no turn that the CLI starts by itself over their results is due or running; the shell gives that a
 * grace (`end_expected`) and then says `graceOver`. Only the root's messages behind the own message's start move the turn.
 */
import { clip } from "../../../protocol/errors.ts";
import type { Observation } from "../driver.ts";
import type { Agents } from "./agents.ts";
import type { NativeBlock, NativeMessage, NativeResult, NativeUsage } from "./native-message.ts";
import { createTextParts, type TextChange } from "./text-parts.ts";
import { judge, turnUsage, type Verdict } from "./verdict.ts";

type MessageOf<T extends NativeMessage["type"]> = Extract<NativeMessage, { type: T }>;

/** What a message meant for the turn. The shell adds evidence, clocks and sending. */
export type ViewChange =
  | TextChange
  /** The CLI works on the message, by its own word, before the model has said any: from here on it can be interrupted. */
  | { kind: "own_event"; what: string }
  | Extract<Observation, { kind: "tool" }>
  /** A request is tried again; `isMain` when it is one of the main chain. */
  | {
      kind: "waiting";
      session: string;
      reason: string;
      attempt: number;
      delayMs: number | null;
      isMain: boolean;
    }
  /** The provider answers. */
  | { kind: "progress"; session: string }
  /** The end may be here, unless the CLI goes on by itself. */
  | { kind: "end_expected" }
  | { kind: "end_not_expected" }
  /** `shells` are commands that still run in the background: they hold nothing, and end with the process. */
  | (Omit<Extract<Observation, { kind: "native_end" }>, "evidence"> & { shells: string[]; why: string });

export interface TurnView {
  take(message: NativeMessage): ViewChange[];
  /** Nothing has begun in the time that was given. */
  graceOver(): ViewChange[];
}

/** Tasks whose end makes the CLI go on with a turn of its own that belongs to this one. */
const HOLDING: ReadonlySet<string> = new Set(["local_agent", "local_workflow"]);
/** Tool calls, and answers of the model, that are followed in one turn. Beyond: calls are not told, and usage is unknown. */
const FOLLOWED = 10_000;

interface Answer {
  isStreamed: boolean;
  isStated: boolean;
  usage: NativeUsage | null;
}

interface Options {
  /** The uuid of the turn's own message. */
  ownMessage: string;
  agents: Agents;
  /** What of the conversation stands last if this turn leaves nothing in it. */
  earlierTail: Extract<Observation, { kind: "native_end" }>["tail"];
}

export function createTurnView({ ownMessage, agents, earlierTail }: Options): TurnView {
  const texts = createTextParts();
  const tools = new Map<string, { tool: string; title: string; isOver: boolean }>();
  /** The first that is no completion, else the last. */
  let verdict: Verdict | null = null;
  const results: NativeUsage[] = [];
  /** Answers of models by message id: what they state of usage, and whether they came as a stream. */
  const answers = new Map<string, Answer>();
  let streaming: string | null = null;
  let hasStarted = false;
  let isStored = false;
  let wasModelCalled = false;
  let lastAnswer: string | null = null;
  let holding = 0;
  let wasHeld = false;
  let shells: string[] = [];
  /** A result was seen, and nothing of the root since. */
  let isResting = false;
  let hasEnded = false;

  function start(what: string): ViewChange[] {
    if (hasStarted) return [];
    hasStarted = true;
    return [{ kind: "own_event", what }];
  }

  function answer(id: string, value: Answer): void {
    if (answers.size < FOLLOWED) answers.set(id, value);
  }

  /** The root is at work again: by itself, over what its subagents brought. */
  function awake(): ViewChange[] {
    if (!isResting) return [];
    isResting = false;
    return [{ kind: "end_not_expected" }];
  }

  function read(message: NativeMessage): ViewChange[] {
    switch (message.type) {
      case "command_lifecycle":
        return onLifecycle(message);
      case "system":
        return onSystem(message);
      case "user":
        return onUser(message);
      case "assistant":
        return hasStarted ? onAssistant(message) : [];
      case "stream_event":
        return hasStarted ? onStream(message) : [];
      case "result":
        return hasStarted ? onResult(message) : [];
      case "control_request":
      case "control_cancel_request":
      case "control_response":
        // The session's and the desks'.
        return [];
      default: {
        const never: never = message;
        throw new TypeError(`message ${String(never)} is not handled`);
      }
    }
  }

  function onLifecycle({ command_uuid, state }: MessageOf<"command_lifecycle">): ViewChange[] {
    if (command_uuid !== ownMessage) return [];
    if (state === "started") return start("command_lifecycle started");
    // Taken out of the queue before anything of it ran.
    if (state === "cancelled" && !hasStarted) {
      verdict = { status: "aborted", error: null };
      return [...start("command_lifecycle cancelled"), finish("cancelled in the queue")];
    }
    return [];
  }

  function onSystem(message: MessageOf<"system">): ViewChange[] {
    switch (message.subtype) {
      case "background_tasks_changed":
        return onTasks(message.tasks);
      case "init":
        return hasStarted ? awake() : [];
      case "api_retry":
        return hasStarted ? onRetry(message) : [];
      case "status":
      case "task_started":
        return [];
      default: {
        const never: never = message;
        throw new TypeError(`message ${String(never)} is not handled`);
      }
    }
  }

  function onRetry({
    parent_tool_use_id: parent = null,
    attempt,
    error,
    error_status: status,
    retry_delay_ms: delayMs,
  }: Extract<NativeMessage, { subtype: "api_retry" }>): ViewChange[] {
    const isMain = parent === null;
    const reason = `${error ?? "unknown"}${status == null ? "" : ` (${status})`}`;
    return [
      ...(isMain ? texts.withdrawUnfinished() : []),
      {
        kind: "waiting",
        session: agents.sessionOf(parent),
        reason: clip(reason),
        attempt,
        delayMs: delayMs ?? null,
        isMain,
      },
    ];
  }

  function onTasks(
    tasks: Extract<NativeMessage, { subtype: "background_tasks_changed" }>["tasks"],
  ): ViewChange[] {
    const held = tasks.filter(({ task_type }) => HOLDING.has(task_type ?? ""));
    shells = tasks
      .filter((task) => !held.includes(task))
      .map(({ description }) => clip(description ?? "", 200));
    holding = held.length;
    wasHeld ||= holding > 0;
    return rest();
  }

  function onUser(message: MessageOf<"user">): ViewChange[] {
    const changes: ViewChange[] = [];
    if (message.isReplay === true && message.uuid === ownMessage) {
      isStored = true;
      changes.push(...start("user message played back"));
    }
    const { content } = message.message;
    if (!hasStarted || typeof content === "string") return changes;
    return [
      ...changes,
      ...content.flatMap((block) => onToolResult(block, message.parent_tool_use_id ?? null)),
    ];
  }

  function onToolResult(block: NativeBlock, parent: string | null): ViewChange[] {
    const call = block.type === "tool_result" ? block.tool_use_id : undefined;
    const known = call === undefined ? undefined : tools.get(call);
    if (call === undefined || known === undefined || known.isOver) return [];
    known.isOver = true;
    const status = block.is_error === true ? "failed" : "completed";
    const { tool, title } = known;
    return [{ kind: "tool", session: agents.sessionOf(parent), call, tool, status, title }];
  }

  function onAssistant({
    message,
    parent_tool_use_id: parent = null,
    uuid,
    ...rest
  }: MessageOf<"assistant">): ViewChange[] {
    const changes: ViewChange[] = [{ kind: "progress", session: agents.sessionOf(parent) }];
    if (parent === null) {
      changes.push(...awake());
      // The CLI's own words in the model's place are no answer; what failed comes with the result.
      if (message.model === SYNTHETIC || rest.is_api_error_message === true) return changes;
      wasModelCalled = true;
      lastAnswer = uuid;
      if (!answers.has(message.id))
        answer(message.id, { isStreamed: false, isStated: true, usage: message.usage ?? null });
      changes.push(...texts.finished(message.id, message.content));
    }
    return [...changes, ...message.content.flatMap((block) => onToolCall(block, parent))];
  }

  function onToolCall({ type, id, name, input }: NativeBlock, parent: string | null): ViewChange[] {
    if (type !== "tool_use" || id === undefined || name === undefined || tools.has(id)) return [];
    if (tools.size >= FOLLOWED) return [];
    agents.called(id, parent);
    const title = titleOf(input);
    tools.set(id, { tool: name.slice(0, 128), title, isOver: false });
    const session = agents.sessionOf(parent);
    return [{ kind: "tool", session, call: id, tool: name.slice(0, 128), status: "running", title }];
  }

  function onStream({ event, parent_tool_use_id: parent = null }: MessageOf<"stream_event">): ViewChange[] {
    const progress: ViewChange = { kind: "progress", session: agents.sessionOf(parent) };
    if (parent !== null) return [progress];
    if (event.type === "message_start" && event.message !== undefined) {
      const { id, usage } = event.message;
      streaming = id;
      answer(id, { isStreamed: true, isStated: isStated(usage), usage: null });
    }
    const streamed = streaming === null ? undefined : answers.get(streaming);
    if (streamed !== undefined && isStated(event.usage)) streamed.isStated = true;
    return [...awake(), progress, ...texts.stream(event)];
  }

  function onResult(result: NativeResult): ViewChange[] {
    const next = judge(result, wasModelCalled);
    if (verdict === null || verdict.status === "completed") verdict = next;
    if (result.usage != null && results.length < FOLLOWED) results.push(result.usage);
    isResting = true;
    // An answer that was cut by an abort stays, as far as it came.
    const withdrawn = next.status === "aborted" ? [] : texts.withdrawUnfinished();
    return [...withdrawn, ...rest()];
  }

  /** The end, if this is it. */
  function rest(): ViewChange[] {
    if (!isResting || holding > 0) return [];
    return wasHeld ? [{ kind: "end_expected" }] : [finish("result")];
  }

  function finish(why: string): ViewChange {
    hasEnded = true;
    const own = isStored ? ({ role: "user", id: ownMessage } as const) : earlierTail;
    return {
      kind: "native_end",
      ...(verdict ?? { status: "failed", error: null }),
      tail: lastAnswer === null ? own : { role: "assistant", id: lastAnswer },
      usage: usageOfTurn(),
      shells,
      why,
    };
  }

  function usageOfTurn() {
    const all = [...answers.values()];
    // An answer without a statement makes the sum unknown.
    if (
      Math.max(all.length, results.length) >= FOLLOWED ||
      all.some((answer) => answer.isStreamed && !answer.isStated)
    )
      return turnUsage([], []);
    const unstreamed = all.flatMap(({ isStreamed, usage }) => (isStreamed || usage === null ? [] : [usage]));
    return turnUsage(results, unstreamed);
  }

  return {
    take: (message) => (hasEnded ? [] : read(message)),
    graceOver: () => (hasEnded || !isResting || holding > 0 ? [] : [finish("result, and no subagent left")]),
  };
}

/** The model's name on what the CLI says in its place. */
const SYNTHETIC = "<synthetic>";

function isStated(usage: NativeUsage | null | undefined): boolean {
  return (usage?.input_tokens ?? 0) > 0 || (usage?.output_tokens ?? 0) > 0;
}

/** What a tool call is about, in the words of whoever called it. */
function titleOf(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  const known = input as Record<string, unknown>;
  const words = ["description", "command", "file_path", "path", "url", "query", "pattern"].map(
    (key) => known[key],
  );
  return clip(words.find((each): each is string => typeof each === "string" && each !== "") ?? "", 200);
}
