/**
 * One Claude Code session on its pipe: the handshake before the first prompt, the gate, the prompt itself, whose messages
 * are the turn's, and what the CLI does outside our turns.
 *
 *   bridge                                    CLI
 *     initialize ───────────────────────────▶
 *     ◀─────────────────────────────────────── answer: it is ready
 *     set_permission_mode ──────────────────▶
 *     ◀─────────────────────────────────────── answer, and `system/status` that names the session: its identity
 *     mcp_status (at each gate) ────────────▶
 *     ◀─────────────────────────────────────── answer
 *     user, with our uuid ──────────────────▶
 *     ◀─────────────────────────────────────── command_lifecycle with that uuid, the turn, `result`
 */
import { randomUUID } from "node:crypto";
import { asHoldfastError, clip, HoldfastError } from "../../../protocol/errors.ts";
import type { TailReference } from "../../../protocol/locator.ts";
import { limited } from "../../limited.ts";
import type { Prompt } from "../driver.ts";
import { createPipeCalls } from "../stdio/pipe-calls.ts";
import type { Pipe, PipeSession } from "../stdio/resident.ts";
import { createActivity } from "./activity.ts";
import { createAgents } from "./agents.ts";
import { controlAnswer, controlRefusal, decideAsk, isQuestion, permissionAnswer, toolAsk } from "./asks.ts";
import { createCommands } from "./commands.ts";
import { TURN_MODE } from "./launch-plan.ts";
import { type NativeControlRequest, type NativeMessage, readMessage, rootSession } from "./native-message.ts";
import { type ClaudeTurn, openClaudeTurn } from "./turn.ts";

type ControlAnswer = Extract<NativeMessage, { type: "control_response" }>["response"];

export interface ClaudeSession extends PipeSession {
  /** Resolves with the session that the CLI itself names. Throws CLI_NOT_READY, CLI_REFUSED, CLI_EXITED. */
  handshake(): Promise<string>;
  /**
   * Ends what works on behind the turns: 2.1.332 waits for a background shell without end when its stdin closes, 2.1.220
   * for 5.2 s (both measured). Bounded; what can't be ended so is ended with the process.
   */
  endTasks(): Promise<void>;
  /** Why the CLI ended before it was ready, in its own words; null when it said nothing. */
  refusal(): string | null;
}

export interface ClaudeSessionOptions {
  pipe: Pipe;
  nativeId: string;
  directory: string;
  /** The last settled turn's place in the history; null when there is none. */
  tail: TailReference | null;
  /** A further turn in a process that has retried a request would lose history. */
  retiresAfterRetry: boolean;
}

export function createClaudeSession(options: ClaudeSessionOptions): ClaudeSession {
  const { pipe, nativeId, directory } = options;
  const { clock, limits, listener, log, launch } = pipe.request;
  const agents = createAgents(nativeId);
  const activity = createActivity();
  const commands = createCommands();
  let lastCall = 0;
  const calls = createPipeCalls<string, ControlAnswer>(clock, () => `holdfast-${++lastCall}`);
  const named = Promise.withResolvers<string>();
  // Who does not get as far as to wait for it hears of the loss elsewhere.
  named.promise.catch(() => undefined);
  let tail = options.tail;
  let refusal: string | null = null;
  let retireReason: string | null = null;
  let turn: ClaudeTurn | null = null;
  /** The first session that the root's messages of this turn named, and the first that was another one. */
  let observed: { session: string | null; other: string | null } = { session: null, other: null };
  let onQuiet: () => void = () => undefined;

  async function control(request: Record<string, unknown>, limitMs: number): Promise<ControlAnswer> {
    const what = String(request.subtype);
    const answer = await calls.call(what, limitMs, (id) =>
      pipe.send({ type: "control_request", request_id: id, request }, limitMs),
    );
    if (answer.subtype === "success") return answer;
    throw new HoldfastError("CLI_REFUSED", clip(`${what}: ${answer.error ?? answer.subtype}`));
  }

  function noteIdentity(raw: Record<string, unknown>): void {
    const session = rootSession(raw);
    if (session === null) return;
    observed.session ??= session;
    if (session !== nativeId) observed.other ??= session;
  }

  function noteSystem(message: NativeMessage): void {
    if (message.type !== "system") return;
    if (message.subtype === "init") commands.add(message.slash_commands);
    if (message.subtype === "task_started" && message.tool_use_id != null)
      agents.started(message.task_id, message.tool_use_id, message.description ?? "");
    if (message.subtype === "status" && message.permissionMode === TURN_MODE && message.session_id != null)
      named.resolve(message.session_id);
  }

  /** Of a turn that is not ours: nobody can be asked, and nothing may be left waiting. */
  function answerUnrequested(request: NativeControlRequest): void {
    const ask = toolAsk(request, nativeId);
    const action = ask === null ? "deny" : decideAsk(launch.permissions, ask, directory);
    const isAllowed =
      ask !== null &&
      !isQuestion(ask) &&
      (action === "allow" || (action === "ask" && launch.permissions.askDefault === "allow"));
    const answer =
      ask === null
        ? controlRefusal(request.request_id, request.request.subtype)
        : controlAnswer(ask.id, permissionAnswer(ask, isAllowed ? "once" : "reject", "unasked"));
    pipe.send(answer, limits.permissionMs).catch((error: unknown) => {
      log.warn("a request outside any turn could not be answered", { error: asHoldfastError(error).message });
    });
  }

  function take(message: NativeMessage): void {
    noteSystem(message);
    if (message.type === "control_response" && calls.answered(message.response.request_id, message.response))
      return;
    if (message.type === "result" && turn === null) refusal ??= message.errors?.join("; ") ?? null;
    turn?.take(message);
    const isOurs = turn?.isRunning() ?? false;
    if (message.type === "control_request" && !(isOurs && toolAsk(message, nativeId) !== null))
      answerUnrequested(message);
    const change = activity.take(message, isOurs, clock.monotonicMs());
    if (change !== null) listener.onUnrequested(nativeId, change, "a turn of the CLI's own");
    if (activity.quietInMs(clock.monotonicMs()) !== null) onQuiet();
  }

  function quiet(): Promise<void> {
    const waitMs = activity.quietInMs(clock.monotonicMs());
    if (waitMs === 0) return Promise.resolve();
    return new Promise<void>((resolve) => {
      onQuiet = resolve;
      if (waitMs !== null) clock.after(waitMs, resolve);
    }).then(quiet);
  }

  return {
    nativeId,
    directory,
    refusal: () => refusal,
    async handshake() {
      const { response } = await control({ subtype: "initialize", hooks: null }, limits.readyMs);
      commands.addNamed(response?.commands);
      await control({ subtype: "set_permission_mode", mode: TURN_MODE }, limits.requestMs);
      return limited(
        { clock, limitMs: limits.requestMs, code: "CLI_NOT_READY", what: "the session's name" },
        () => named.promise,
      );
    },
    async endTasks() {
      if (turn?.isRunning() === true) return;
      const ended = activity
        .tasks()
        .map((task_id) => control({ subtype: "stop_task", task_id }, limits.requestMs));
      for (const each of await Promise.allSettled(ended)) {
        if (each.status === "rejected")
          log.warn("a background task could not be ended", { error: asHoldfastError(each.reason).message });
      }
    },
    take(raw, _sequence, active) {
      if (active === null) turn = null;
      noteIdentity(raw);
      const reading = readMessage(raw);
      if (reading.kind === "known") return take(reading.message);
      if (reading.kind === "other") return;
      log.warn("a message of the CLI can't be read", { why: reading.why });
      retireReason ??= reading.why;
      turn?.broken(reading.why);
    },
    async gate() {
      await limited(
        {
          clock,
          limitMs: limits.firstEventMs,
          code: "GATE_FAILED",
          what: "the end of what the CLI does by itself",
        },
        quiet,
      );
      await control({ subtype: "mcp_status" }, limits.canaryMs);
      return { what: "answer_on_pipe", detail: "mcp_status" };
    },
    nextMessageId: () => randomUUID(),
    openTurn({ nativeMessage }, report) {
      observed = { session: null, other: null };
      const opened = openClaudeTurn({
        pipe,
        session: nativeId,
        directory,
        ownMessage: nativeMessage,
        agents,
        earlierTail: tail,
        report,
        sendInterrupt: () => control({ subtype: "interrupt" }, limits.requestMs),
        onRetry(reason) {
          if (options.retiresAfterRetry) retireReason ??= `the CLI has retried a request: ${reason}`;
        },
        onTail(next) {
          tail = next;
        },
      });
      turn = opened;
      // What comes from the pipe is read by this session, which hands the turn its messages.
      return { ...opened, take: () => undefined };
    },
    async submit({ text, nativeMessage }: Prompt) {
      const command = commands.in(text);
      if (command !== null)
        return { kind: "rejected", detail: `the text would run the CLI's command ${command}` };
      try {
        await pipe.send({
          type: "user",
          uuid: nativeMessage,
          message: { role: "user", content: [{ type: "text", text }] },
          parent_tool_use_id: null,
          session_id: nativeId,
        });
        return { kind: "accepted" };
      } catch (error) {
        return { kind: "unclear", detail: asHoldfastError(error).message };
      }
    },
    async verify() {
      const { session, other } = observed;
      const evidence = pipe.evidence("session_named", "stream", other ?? session ?? "");
      if (other !== null) return { kind: "changed", observed: other, evidence };
      if (session === null) return { kind: "unavailable", detail: "the CLI named no session in this turn" };
      return { kind: "verified", nativeId: session, evidence };
    },
    mustRetire: () => retireReason,
    fail(error) {
      calls.fail(error);
      named.reject(error);
    },
  };
}
