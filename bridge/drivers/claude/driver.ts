/** The driver of Claude Code over stream-json on stdio: launch, handshake, a new session or a proven resume. */
import { randomUUID } from "node:crypto";
import { asHoldfastError, clip, HoldfastError } from "../../../protocol/errors.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { limited } from "../../limited.ts";
import { processesLeft } from "../../process.ts";
import type { Driver, DriverManifest, LaunchRequest, LaunchResult, Resident } from "../driver.ts";
import { openPipeResident, type Pipe, startPipe } from "../stdio/resident.ts";
import { holdsFor } from "../version-range.ts";
import { missingHistory } from "./history.ts";
import { launchArguments, launchEnvironment } from "./launch-plan.ts";
import { type ClaudeSession, createClaudeSession } from "./session.ts";

/** What holds for some versions only. */
export const CLAUDE_RANGES: DriverManifest["ranges"] = {
  retire_after_retry: {
    from: null,
    below: "2.1.269",
    reason:
      "a further turn in a process that has printed system/api_retry writes the retry's rows behind the reply, and the reply is gone at the next resume (bisected: 2.1.268 loses it, 2.1.269 does not)",
  },
  no_background: {
    from: null,
    below: "2.1.269",
    reason: "a turn that the CLI starts by itself is such a further turn, and can't be held back",
  },
};

/** Closing stdin takes the CLI up to 1.5 s, and 5.2 s where a background shell could not be ended before (measured). */
const GRACEFUL_MS = 8000;

const SESSION_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @param ranges other than the measured ones only to show in a test what they are for */
export function createClaudeDriver(ranges: DriverManifest["ranges"] = CLAUDE_RANGES): Driver {
  const manifest: DriverManifest = {
    cli: "claude",
    gate: "answer-on-pipe",
    provesDelivery: false,
    asksPermission: true,
    asksQuestions: true,
    reportsUsage: true,
    hasSubagents: true,
    // It names the new session in the handshake, and writes nothing of it before a prompt (2.1.220, 2.1.332).
    fork: { when: "with_first_turn", state: "home/.claude/projects", except: [] },
    ranges,
  };

  function holds(range: keyof typeof ranges, version: string): boolean {
    const found = ranges[range];
    return found !== undefined && holdsFor(found, version);
  }

  async function start(request: LaunchRequest, locator: Locator | null) {
    const { launch, slot, modelUrl, modelKey, cliVersion } = request;
    const resumes = locator?.nativeId ?? null;
    const nativeId = resumes === null || request.forks ? randomUUID() : resumes;
    const allowsBackground = launch.background && !holds("no_background", cliVersion);
    const pipe = await startPipe(request, {
      args: launchArguments(launch, { id: nativeId, resumes }, allowsBackground),
      environment: launchEnvironment({
        slot,
        launch,
        modelUrl,
        modelKey,
        allowsBackground,
        path: process.env.PATH ?? "/usr/bin:/bin",
      }),
      ownKey: "type",
      gracefulMs: Math.max(GRACEFUL_MS, request.limits.stopMs),
    });
    const session = createClaudeSession({
      pipe,
      nativeId,
      directory: slot.workspace,
      tail: locator?.tail ?? null,
      retiresAfterRetry: holds("retire_after_retry", cliVersion),
    });
    pipe.listen({
      onMessage: (message, sequence) => session.take(message, sequence, null),
      onLost: session.fail,
    });
    return { pipe, session };
  }

  /** Why this session is not the locator's, proven; null when it is. */
  async function problemOf(
    session: ClaudeSession,
    request: LaunchRequest,
    locator: Locator | null,
  ): Promise<string | null> {
    const { clock, signal, limits } = request;
    const limitMs = limits.readyMs + limits.requestMs;
    const named = await limited(
      { clock, limitMs, code: "CLI_NOT_READY", what: "the CLI's handshake", signal },
      session.handshake,
    );
    if (named !== session.nativeId) return `the CLI names another session: ${clip(named, 64)}`;
    return locator === null ? null : missingHistory(request.slot, locator);
  }

  async function launch(request: LaunchRequest, locator: Locator | null): Promise<LaunchResult> {
    const lost = locator === null ? null : problemBefore(locator, request);
    if (lost !== null) return { kind: "not_resumed", resume: { kind: "lost", reason: lost } };
    const { pipe, session } = await start(request, locator);
    try {
      const problem = await problemOf(session, request, locator);
      if (problem === null) {
        const opened = openPipeResident(pipe, session);
        const resident: Resident = {
          ...opened,
          async stop() {
            await session.endTasks();
            return opened.stop();
          },
        };
        return locator === null
          ? { kind: "new", resident }
          : { kind: "resumed", resident, resume: { kind: "proven" } };
      }
      await stop(pipe);
      if (locator === null) throw new HoldfastError("CLI_NOT_READY", problem);
      return { kind: "not_resumed", resume: { kind: "lost", reason: problem } };
    } catch (error) {
      await stop(pipe);
      if (locator === null) throw error;
      return { kind: "not_resumed", resume: whyNotResumed(session, error) };
    }
  }

  return {
    manifest,
    launch,
    async fork(request, locator) {
      const lost = problemBefore(locator, request) ?? (await missingHistory(request.slot, locator));
      if (lost !== null) throw new HoldfastError("CONTEXT_LOST", lost);
      return null;
    },
    // Its transcript is written later than the model is called: what is not there proves nothing.
    proveDelivery: async () => "unclear",
  };
}

/** What needs no process to be seen. */
function problemBefore({ nativeId, directory }: Locator, { slot }: LaunchRequest): string | null {
  if (!SESSION_ID.test(nativeId)) return `there is no session with the saved id ${clip(nativeId, 64)}`;
  if (directory === slot.workspace) return null;
  return `the session belongs to the directory ${directory}, and the CLI finds it from there only`;
}

/** While a locator is being resumed a passing fault is an error of its own and never LOST. */
function whyNotResumed(
  session: ClaudeSession,
  error: unknown,
): Extract<LaunchResult, { kind: "not_resumed" }>["resume"] {
  if (session.refusal()?.startsWith(UNKNOWN_SESSION) === true)
    return { kind: "lost", reason: "the CLI has no session with the saved id" };
  return { kind: "error", reason: asHoldfastError(error).message };
}

const UNKNOWN_SESSION = "No conversation found with session ID";

async function stop(pipe: Pipe): Promise<void> {
  const left = await pipe.stop(true);
  if (left.length > 0) throw processesLeft(left);
}
