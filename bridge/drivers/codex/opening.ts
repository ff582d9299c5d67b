/**
 * From a started `codex app-server` to a thread that may be used: it answers, it is the pinned version, and the thread is
 * a new one, or the saved one with its last settled turn in the history that codex loads. All before the first prompt.
 *
 *   initialize ─▶ answer: ready ─▶ initialized ─▶ thread/start | thread/resume ─▶ thread ─▶ its record is read
 */
import { clip, HoldfastError } from "../../../protocol/errors.ts";
import type { ForkedSession } from "../../../protocol/fork.ts";
import { NativeId } from "../../../protocol/ids.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { askedTools } from "../../../protocol/permission-policy.ts";
import { limited } from "../../limited.ts";
import type { Pipe } from "../stdio/resident.ts";
import { type CodexChannel, openChannel } from "./channel.ts";
import { threadOptions, unofferedServers } from "./launch-plan.ts";
import {
  Hello,
  OpenThread,
  ReadConfig,
  RecordedThread,
  readNative,
  type TokenUsage,
} from "./native-message.ts";
import { createRolloutProof, type RolloutBase, type RolloutProof } from "./rollout.ts";
import { readRecord } from "./rollout-file.ts";
import type { CodexSessionOptions } from "./session.ts";

const CLIENT = { name: "holdfast", title: "Holdfast", version: "1" };

/** How codex refuses to resume what it does not have; every other refusal may pass. */
const NOT_THERE = /^(no rollout found\b|invalid session id\b|invalid paginated history lineage\b)/;
/** It has the record, and can't begin to read it. */
const NOT_WHOLE = /\b(is empty|does not start with session metadata)$/;

/**
 * @param locator of the thread to resume, or null for a new one
 * Throws CONTEXT_LOST, CLI_NOT_READY and its like; the process is still to be ended.
 */
export async function openThread(pipe: Pipe, locator: Locator | null): Promise<CodexSessionOptions> {
  const channel = openChannel(pipe);
  let usage: TokenUsage | null = null;
  pipe.listen({
    onMessage(raw) {
      const message = readNative(raw);
      if (message?.kind === "result" || message?.kind === "refused") channel.takeAnswer(message);
      if (message?.kind === "event" && message.event.method === "thread/tokenUsage/updated")
        usage = message.event.params.tokenUsage;
    },
    onLost: channel.fail,
  });
  await greet(pipe, channel);
  return { pipe, channel, ...(await open(pipe, channel, locator)), usage };
}

async function open(
  pipe: Pipe,
  channel: CodexChannel,
  locator: Locator | null,
): Promise<Pick<CodexSessionOptions, "nativeId" | "directory">> {
  const { request } = pipe;
  const options = { ...threadOptions(request.launch), config: await heldServers(pipe, channel) };
  const opened =
    locator === null
      ? await channel.ask("thread/start", { ...options, cwd: request.slot.workspace })
      : await resume(channel, "thread/resume", {
          ...options,
          threadId: locator.nativeId,
          excludeTurns: true,
        });
  const read = OpenThread.safeParse(opened);
  if (!read.success || !NativeId.safeParse(read.data.thread.id).success)
    throw new HoldfastError("CLI_NOT_READY", "codex does not say what its thread is");
  const { thread, cwd } = read.data;
  if (locator === null) {
    if (cwd !== request.slot.workspace)
      throw new HoldfastError("CLI_NOT_READY", "the new thread has another working directory");
  } else {
    if (thread.id !== locator.nativeId)
      throw lost(`the CLI resumed another session (${thread.id.slice(0, 64)})`);
    if (cwd !== locator.directory) throw elsewhere();
    await proveTail(pipe, channel, { thread: thread.id, path: thread.path ?? null }, locator.tail);
  }
  return { nativeId: thread.id, directory: cwd };
}

/**
 * Forks the locator's thread on a started process, and proves the fork. Codex copies nothing of it: the new record begins
 * where it left the old one, and keeps its turns' ids (measured on 0.171.0). Throws as `openThread` does.
 */
export async function forkThread(pipe: Pipe, locator: Locator): Promise<ForkedSession> {
  const channel = openChannel(pipe);
  pipe.listen({
    onMessage(raw) {
      const message = readNative(raw);
      if (message?.kind === "result" || message?.kind === "refused") channel.takeAnswer(message);
    },
    onLost: channel.fail,
  });
  await greet(pipe, channel);
  const { launch, slot } = pipe.request;
  const made = await resume(channel, "thread/fork", {
    ...threadOptions(launch),
    cwd: slot.workspace,
    threadId: locator.nativeId,
    excludeTurns: true,
  });
  const read = OpenThread.safeParse(made);
  if (!read.success || !NativeId.safeParse(read.data.thread.id).success)
    throw new HoldfastError("CLI_NOT_READY", "codex does not say what its fork is");
  const { thread, cwd } = read.data;
  if (thread.id === locator.nativeId || cwd !== locator.directory)
    throw new HoldfastError("CLI_NOT_READY", `the fork is no thread of its own (${clip(thread.id, 64)})`);
  await proveTail(pipe, channel, { thread: thread.id, path: thread.path ?? null }, locator.tail);
  return { nativeId: thread.id, directory: cwd, tail: locator.tail };
}

/** The saved conversation is not what codex has: no further try would change that. */
const lost = (reason: string) => new HoldfastError("CONTEXT_LOST", clip(reason));
export const elsewhere = () => lost("the session belongs to another working directory");

async function greet({ request }: Pipe, channel: CodexChannel): Promise<void> {
  const { clock, limits, signal, cliVersion } = request;
  const limitMs = limits.readyMs;
  const greeting = { clientInfo: CLIENT, capabilities: { experimentalApi: true } };
  const answer = await limited({ clock, limitMs, code: "CLI_NOT_READY", what: "codex's start", signal }, () =>
    channel.ask("initialize", greeting, limitMs),
  );
  const hello = Hello.safeParse(answer);
  const version = hello.success ? /^[^/]*\/(\S+)/.exec(hello.data.userAgent)?.[1] : undefined;
  if (version !== cliVersion) {
    throw new HoldfastError(
      "CLI_NOT_READY",
      `codex is ${clip(version ?? "without a version", 64)}, pinned is ${cliVersion}`,
    );
  }
  await channel.notify("initialized");
}

/** What keeps tools of MCP servers, of the member's own settings, from running behind the policy's back. */
async function heldServers({ request }: Pipe, channel: CodexChannel): Promise<Record<string, unknown>> {
  const { permissions } = request.launch;
  if (askedTools(permissions).length === 0) return {};
  const answer = await channel.ask("config/read", { includeLayers: false, cwd: request.slot.workspace });
  const read = ReadConfig.safeParse(answer);
  if (!read.success) throw new HoldfastError("CLI_NOT_READY", "codex does not say which servers it has");
  return unofferedServers(permissions, Object.keys(read.data.config.mcp_servers ?? {}));
}

async function resume(
  channel: CodexChannel,
  method: "thread/resume" | "thread/fork",
  params: unknown,
): Promise<unknown> {
  const answer = await channel.call(method, params);
  if (answer.kind === "result") return answer.result;
  if (NOT_THERE.test(answer.message)) throw lost("the CLI has no session with the saved id");
  if (NOT_WHOLE.test(answer.message)) throw lost("the CLI has no history for the saved id");
  throw new HoldfastError("CLI_REFUSED", `${method}: ${answer.message.slice(0, 500)}`);
}

/** Forks of forks that are followed. Beyond: CLI_REFUSED. */
const LINEAGE = 64;

/** Law 8: what codex has loaded contains the last settled turn; of a fork, with the records that it goes on from. */
async function proveTail(
  { request }: Pipe,
  channel: CodexChannel,
  record: { thread: string; path: string | null },
  tail: Locator["tail"],
): Promise<void> {
  const proofs: RolloutProof[] = [];
  let base: RolloutBase | null = null;
  let { thread, path } = record;
  do {
    if (proofs.length >= LINEAGE)
      throw new HoldfastError("CLI_REFUSED", `the thread is a fork of more than ${LINEAGE} others`);
    if (path === null) throw lost("the CLI does not say where its history is");
    const proof = createRolloutProof(thread, tail?.id ?? null, base?.end_ordinal_exclusive ?? null);
    const isThere = await readRecord(request.slot, path, proof.line, base?.end_byte_offset ?? null);
    if (!isThere) throw lost("the CLI has no history for the saved id");
    proofs.push(proof);
    base = proof.base();
    if (base !== null) {
      thread = base.thread_id;
      path = await pathOf(channel, thread);
    }
  } while (base !== null);
  const holdsTurn = proofs.some((proof) => proof.holdsTurn());
  const problem = proofs.map((proof) => proof.problem(holdsTurn)).find((found) => found !== null);
  if (problem != null) throw lost(problem);
}

async function pathOf(channel: CodexChannel, threadId: string): Promise<string | null> {
  const read = RecordedThread.safeParse(await channel.ask("thread/read", { threadId }));
  return read.success ? (read.data.thread.path ?? null) : null;
}
