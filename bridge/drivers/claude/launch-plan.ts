/** Arguments and environment of a Claude Code process. Pure. The process's own token is in the environment; no key of a provider is in either. */
import type { Launch } from "../../../protocol/launch.ts";
import { askedTools } from "../../../protocol/permission-policy.ts";
import type { Slot } from "../../slots.ts";
import { slotEnvironment } from "../environment.ts";

/** The mode in which turns run: what the settings name is asked for, on the pipe. */
export const TURN_MODE = "default";
/**
 * The mode of the launch: stricter than {@link TURN_MODE}, which the handshake sets. The CLI prints no session id before
 * the first prompt, but a change of the mode is printed with it; setting the mode that already is prints nothing.
 */
const LAUNCH_MODE = "dontAsk";

/** Tools that start a turn of their own later. Not offered unless the member allows work behind a turn. */
const BACKGROUND_TOOLS = ["CronCreate", "CronDelete", "CronList", "Monitor", "ScheduleWakeup", "Workflow"];

/** Tools that move the session, and its transcript with it, to another directory than the locator's. Never offered. */
const MOVING_TOOLS = ["EnterWorktree", "ExitWorktree"];

export interface SessionChoice {
  id: string;
  /** The session that is on disk, and is loaded: it goes on under its own id, or is forked into `id`. Null: a new one. */
  resumes: string | null;
}

export function launchArguments(launch: Launch, session: SessionChoice, allowsBackground: boolean): string[] {
  return [
    "-p",
    ...["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"],
    // Permissions and questions come to us; without it both are refused unasked.
    ...["--permission-prompt-tool", "stdio", "--permission-mode", LAUNCH_MODE],
    ...["--include-partial-messages", "--replay-user-messages"],
    // By name: a default model resumes as another one, with another system prompt.
    ...["--model", launch.model.name],
    ...["--settings", JSON.stringify(settings(launch, allowsBackground))],
    ...sessionArguments(session),
  ];
}

function sessionArguments({ id, resumes }: SessionChoice): string[] {
  if (resumes === null) return ["--session-id", id];
  return resumes === id ? ["--resume", id] : ["--resume", resumes, "--fork-session", "--session-id", id];
}

/** `ask` outranks every allowing rule of a user's or a project's settings, so the policy is heard. */
function settings(launch: Launch, allowsBackground: boolean): unknown {
  const asked = askedTools(launch.permissions);
  return {
    permissions: {
      ask: asked === "all" ? ["*"] : asked,
      deny: [...MOVING_TOOLS, ...(allowsBackground ? [] : BACKGROUND_TOOLS)],
    },
  };
}

export function launchEnvironment(options: {
  slot: Slot;
  launch: Launch;
  modelUrl: string;
  modelKey: string;
  allowsBackground: boolean;
  /** The bridge's own search path. */
  path: string;
}): Record<string, string> {
  const { slot, launch } = options;
  const { name, contextTokens, outputTokens } = launch.model;
  return {
    ...slotEnvironment(slot, options.path),
    // The CLI adds the path of the protocol itself.
    ANTHROPIC_BASE_URL: options.modelUrl,
    ANTHROPIC_API_KEY: options.modelKey,
    // Side calls and subagents would ask for models that nobody has configured.
    ANTHROPIC_SMALL_FAST_MODEL: name,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: name,
    ANTHROPIC_DEFAULT_OPUS_MODEL: name,
    ANTHROPIC_DEFAULT_SONNET_MODEL: name,
    CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(contextTokens),
    CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(contextTokens),
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(outputTokens),
    CLAUDE_CODE_TMPDIR: slot.cache,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_ERROR_REPORTING: "1",
    DISABLE_TELEMETRY: "1",
    // Status and recent commits in the system prompt would break the prompt's prefix at each restart.
    CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS: "1",
    ...(options.allowsBackground
      ? {}
      : { CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1", CLAUDE_CODE_DISABLE_CRON: "1" }),
  };
}
