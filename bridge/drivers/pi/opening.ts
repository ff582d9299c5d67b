/**
 * From a started pi to a session that may be used: pi answers, it is the pinned one, our extension runs in it, and it is
 * in the saved session with the saved conversation. All before the first prompt.
 *
 *   --session ID unknown            exits with code 1
 *   --session ID of another folder  asks on stderr whether to fork, takes our first line as "no", exits with code 0
 *   --session FILE unknown          silently makes a new session (never used; the id is compared all the same)
 */
import { asHoldfastError, clip, HoldfastError } from "../../../protocol/errors.ts";
import type { ForkedSession } from "../../../protocol/fork.ts";
import { NativeId } from "../../../protocol/ids.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { limited } from "../../limited.ts";
import type { Pipe } from "../stdio/resident.ts";
import { openChannel, type PiChannel } from "./channel.ts";
import type { Hello } from "./extension/words.ts";
import { leadsTo } from "./history.ts";
import { hasModel, readNative, type State } from "./native-message.ts";
import type { PiSessionOptions } from "./session.ts";

/**
 * @param locator of the session that was named at the start, or null for a new one
 * Throws CONTEXT_LOST, CLI_NOT_READY and its like; the process is still to be ended.
 */
export async function openSession(pipe: Pipe, locator: Locator | null): Promise<PiSessionOptions> {
  const { channel, state, hello } = await meet(pipe);
  const leaf =
    locator === null
      ? await newLeaf(channel)
      : await provenLeaf(channel, state, hello, locator.nativeId, locator.tail);
  if (hello.cwd !== pipe.request.slot.workspace) throw elsewhere();
  return {
    pipe,
    channel,
    nativeId: state.sessionId,
    directory: pipe.request.slot.workspace,
    leaf,
    tail: locator?.tail ?? null,
  };
}

/**
 * The session that pi, started to fork the locator's, is in: a new one with every record of the old one under the
 * record's own id, written before the first prompt (measured on 1.6.0). Throws as `openSession` does.
 */
export async function forkedSession(
  pipe: Pipe,
  { nativeId, directory, tail }: Locator,
): Promise<ForkedSession> {
  const { channel, state, hello } = await meet(pipe);
  if (state.sessionId === nativeId)
    throw new HoldfastError("CLI_NOT_READY", "pi has resumed the session, and not forked it");
  await provenLeaf(channel, state, hello, state.sessionId, tail);
  if (hello.cwd !== directory) throw elsewhere();
  return { nativeId: state.sessionId, directory, tail };
}

/** Pi answers, is the pinned one, and has our extension and our model. */
async function meet(pipe: Pipe): Promise<{ channel: PiChannel; state: State; hello: Hello }> {
  const { request } = pipe;
  const channel = openChannel(pipe);
  pipe.listen({
    onMessage(raw) {
      const message = readNative(raw);
      if (message?.type === "response") channel.takeAnswer(message);
      if (message?.type === "extension_ui_request") channel.takeIdle(message);
    },
    onLost: channel.fail,
  });
  const state = await firstState(pipe, channel);
  const hello = channel.hello();
  if (hello === null) throw new HoldfastError("CLI_NOT_READY", "our extension does not run in pi");
  if (hello.version !== request.cliVersion) {
    throw new HoldfastError(
      "CLI_NOT_READY",
      `pi is ${clip(hello.version, 64)}, pinned is ${request.cliVersion}`,
    );
  }
  if (!hasModel(state, request.launch.model.name))
    throw new HoldfastError("CLI_NOT_READY", "pi has chosen another model");
  if (!NativeId.safeParse(state.sessionId).success)
    throw new HoldfastError("CLI_NOT_READY", "the session has an unusable id");
  return { channel, state, hello };
}

/** The saved conversation is not what pi has: no further try would change that. */
export const lost = (reason: string) => new HoldfastError("CONTEXT_LOST", clip(reason));
export const elsewhere = () => lost("the session belongs to another working directory");

async function firstState(pipe: Pipe, channel: PiChannel): Promise<State> {
  const { clock, limits, signal } = pipe.request;
  const limitMs = limits.readyMs;
  try {
    return await limited({ clock, limitMs, code: "CLI_NOT_READY", what: "pi's start", signal }, () =>
      channel.state(limitMs),
    );
  } catch (error) {
    if (!pipe.native.hasExited() || asHoldfastError(error).code === "STOPPED") throw error;
    const { code, signal: by, stderrTail } = await pipe.exited;
    if (code === 1 && stderrTail.includes("No session found matching"))
      throw lost("the CLI has no session with the saved id");
    if (code === 0 && stderrTail.includes("Session found in different project")) throw elsewhere();
    throw new HoldfastError("CLI_NOT_READY", `pi ended before it was ready (code ${code}, signal ${by})`);
  }
}

async function newLeaf(channel: PiChannel): Promise<string | null> {
  return (await channel.entriesBehind(null))?.leafId ?? null;
}

/** The newest record of a session that is proven to be the saved one (law 8). */
async function provenLeaf(
  channel: PiChannel,
  state: State,
  hello: Hello,
  nativeId: string,
  tail: Locator["tail"],
): Promise<string | null> {
  if (state.sessionId !== nativeId)
    throw lost(`the CLI resumed another session (${clip(state.sessionId, 64)})`);
  if (tail === null) return newLeaf(channel);
  if (state.messageCount === 0) throw lost("the history that the CLI loaded is blank");
  const later = await channel.entriesBehind(tail.id);
  if (later === null) throw lost("the history lacks the last settled turn");
  if (!leadsTo(tail.id, later))
    throw lost("the history lacks the last settled turn: it is on a branch that was left");
  // A record that could not be read leaves the rest without its beginning, and pi says nothing of it.
  if (!hello.isWhole) throw lost("the history that the CLI loaded lacks its beginning");
  return later.leafId;
}
