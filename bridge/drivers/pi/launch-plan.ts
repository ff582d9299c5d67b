/** Arguments and environment of a pi process. Pure. */
import type { Launch } from "../../../protocol/launch.ts";
import { askedTools, decidePermission } from "../../../protocol/permission-policy.ts";
import type { Slot } from "../../slots.ts";
import { slotEnvironment } from "../environment.ts";
import { PROVIDER, QUESTION_TOOL, SETUP_VARIABLE, type Setup } from "./extension/words.ts";

/** An id as pi gives and takes them. What is of another form pi may take for a path, or for an option. */
export const isSessionId = (id: string) =>
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(id) && !id.endsWith(".jsonl");

/**
 * Discovery of extensions, skills and prompt templates is off: each of them could register a `/word` and swallow or
 * expand a user's text (law 1). Our own extension is named, and pi ends when it can't be loaded.
 * @param session the saved id, or null for a new session. Never a path: an unknown file would silently become a new
 * session
 * @param forks a new session is made from the saved one, with its whole history
 */
export function launchArguments(
  launch: Launch,
  extension: string,
  session: string | null,
  forks = false,
): string[] {
  return [
    "--mode",
    "rpc",
    "--provider",
    PROVIDER,
    "--model",
    launch.model.name,
    "--no-extensions",
    "--no-skills",
    "--no-prompt-templates",
    "--extension",
    extension,
    ...(session === null ? [] : [forks ? "--fork" : "--session", session]),
  ];
}

export function launchEnvironment(options: {
  slot: Slot;
  launch: Launch;
  modelUrl: string;
  modelKey: string;
  /** The bridge's own search path. */
  path: string;
}): Record<string, string> {
  return {
    ...slotEnvironment(options.slot, options.path),
    PI_OFFLINE: "1",
    PI_TELEMETRY: "0",
    PI_SKIP_VERSION_CHECK: "1",
    // Pi's loader would keep the extensions that it has translated in /tmp, and take them from there: another slot's
    // user could put its own code in their place.
    JITI_FS_CACHE: "false",
    [SETUP_VARIABLE]: JSON.stringify(extensionSetup(options)),
  };
}

export function extensionSetup(options: { launch: Launch; modelUrl: string; modelKey: string }): Setup {
  const { model, permissions } = options.launch;
  return {
    model: { name: model.name, contextTokens: model.contextTokens, outputTokens: model.outputTokens },
    baseUrl: `${options.modelUrl}/v1`,
    key: options.modelKey,
    ask: askedTools(permissions),
    // Asking the user needs no leave of the user; a policy that denies it is heard by not offering it.
    offersQuestion: decidePermission(permissions, { permission: QUESTION_TOOL, patterns: [] }) !== "deny",
  };
}
