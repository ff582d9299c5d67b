/**
 * How `codex app-server` is started: arguments, environment, and what a thread is opened with. Pure.
 *
 * Settings go as `-c key=value`, none longer than a model's name: they outrank the member's own `config.toml`, so nothing
 * that a tool writes there loosens them, and the file stays the member's. The token for the model is in the environment.
 */
import type { Launch } from "../../../protocol/launch.ts";
import {
  askedTools,
  type MemberPolicy,
  type PermissionAction,
  type PermissionRule,
} from "../../../protocol/permission-policy.ts";
import type { Slot } from "../../slots.ts";
import { slotEnvironment } from "../environment.ts";

/** The provider's name in the settings; fixed, so that a restart changes no request. */
const PROVIDER = "holdfast";
const KEY_VARIABLE = "HOLDFAST_MODEL_KEY";

/** Tools for which codex asks when it is told to: a command, a patch, and wider rights (its own words). */
export const ASKED = {
  command: "exec_command",
  patch: "apply_patch",
  rights: "request_permissions",
} as const;

const NO_TERMINALS = ["features.unified_exec_tty", "false"] as const;

/**
 * Tools that codex 0.171.0 runs unasked under every approval policy, and the setting without which it does not offer
 * them (measured). `write_stdin` stays: without terminals the input of a command is closed, and what one was allowed for,
 * no other can be fed into. The newest models bring subagents of their own: those stay too, and can start none.
 */
const UNASKED: ReadonlyArray<{ tool: string; setting: readonly [key: string, value: string] }> = [
  { tool: "view_image", setting: ["features.view_image", "false"] },
  { tool: "multi_agent_v1.spawn_agent", setting: ["features.multi_agent", "false"] },
  {
    tool: "collaboration.spawn_agent",
    setting: ["features.multi_agent_v2", "{enabled=false,max_concurrent_threads_per_session=1}"],
  },
  { tool: "write_stdin", setting: NO_TERMINALS },
];

/**
 * Tries of one request behind the first. Every one is told as an `error` that will be retried; codex's own tries below
 * that (`request_max_retries`) would be silent, so there are none. Seven take 25 s, as its defaults do.
 */
const TRIES = 7;

export function launchArguments(launch: Launch, modelUrl: string): string[] {
  return ["app-server", ...settings(launch, modelUrl).flatMap(([key, value]) => ["-c", `${key}=${value}`])];
}

export function launchEnvironment(slot: Slot, path: string, modelKey: string): Record<string, string> {
  // `$HOME/.codex` is codex's own place; named outright it would have to be there already.
  return { ...slotEnvironment(slot, path), [KEY_VARIABLE]: modelKey };
}

/** Values in TOML; a JSON string is one of TOML's. */
function settings({ model, permissions, background: _ }: Launch, modelUrl: string): Array<[string, string]> {
  const text = (value: string) => JSON.stringify(value);
  const provider = `model_providers.${PROVIDER}`;
  return [
    ["model", text(model.name)],
    ["model_provider", text(PROVIDER)],
    ["model_context_window", String(model.contextTokens)],
    [`${provider}.name`, text("Holdfast")],
    [`${provider}.base_url`, text(`${modelUrl}/v1`)],
    [`${provider}.env_key`, text(KEY_VARIABLE)],
    [`${provider}.wire_api`, text("responses")],
    [`${provider}.requires_openai_auth`, "false"],
    [`${provider}.request_max_retries`, "0"],
    [`${provider}.stream_max_retries`, String(TRIES)],
    // Each of these would reach out of the sandbox.
    ["check_for_update_on_startup", "false"],
    ["analytics.enabled", "false"],
    ["features.plugins", "false"],
    ["features.apps", "false"],
    ["web_search", text("disabled")],
    // What the user writes is kept by the thread alone.
    ["history.persistence", text("none")],
    // Without it the model is told that there is nobody to ask.
    ["features.default_mode_request_user_input", "true"],
    ["suppress_unstable_features_warning", "true"],
    // A goal makes codex start turns by itself, one after the other.
    ["features.goals", "false"],
    // It writes all of its shell's environment into a file of its home, the token among it (0.171.0, measured).
    ["features.shell_snapshot", "false"],
    // A text with `$skill-creator` or its like would bring the skill along in a message of the user's (law 1, measured).
    ["skills.bundled.enabled", "false"],
    ...switchedOff(permissions),
  ];
}

function switchedOff(permissions: MemberPolicy): Array<[string, string]> {
  const unasked = UNASKED.filter(({ tool }) => !isWhollyAllowed(permissions, tool));
  const settings = unasked.map(({ setting }) => setting);
  return [...new Set(asksForCommands(permissions) ? [...settings, NO_TERMINALS] : settings)].map(
    ([key, value]) => [key, value],
  );
}

/**
 * The container is the boundary, and codex's own sandbox can't run in it. `untrusted` asks for every command and patch,
 * read-only ones too (measured). `never` would refuse `rm -rf` and its like outright; under `on-request` those are asked
 * for, and the policy allows them.
 */
export function threadOptions(launch: Launch): Record<string, unknown> {
  return {
    model: launch.model.name,
    modelProvider: PROVIDER,
    approvalPolicy: asksForCommands(launch.permissions) ? "untrusted" : "on-request",
    sandbox: "danger-full-access",
  };
}

/**
 * Settings without which codex does not offer the tools of these MCP servers, for those that the policy asks for or
 * denies: it runs a server's tools unasked under every approval policy when the server calls them harmless (measured).
 * A server's tool is `server.tool` in the policy's words.
 */
export function unofferedServers(
  { rules, default: action }: MemberPolicy,
  servers: readonly string[],
): Record<string, unknown> {
  const isHeld = (server: string) =>
    rules
      .filter(({ tool }) => tool === "*" || tool.startsWith(`${server}.`))
      // What a rule allows for one tool of a server says nothing of the others.
      .reduce(
        (before, rule) => (rule.tool === "*" || rule.action !== "allow" ? narrowed(before, rule) : before),
        action,
      ) !== "allow";
  const held = servers.filter(isHeld).map((server) => [server, { enabled: false }] as const);
  return held.length === 0 ? {} : { mcp_servers: Object.fromEntries(held) };
}

function asksForCommands(policy: MemberPolicy): boolean {
  const asked = askedTools(policy);
  const words: readonly string[] = Object.values(ASKED);
  return asked === "all" || asked.some((tool) => words.includes(tool));
}

/** Nothing that the tool could be called for is asked for or denied. */
function isWhollyAllowed({ default: action, rules }: MemberPolicy, tool: string): boolean {
  const fitting = rules.filter((rule) => rule.tool === "*" || rule.tool === tool);
  return fitting.reduce(narrowed, action) === "allow";
}

/** A rule for everything replaces what was said before it; one for something can only take away. */
function narrowed(before: PermissionAction, { pattern, action }: PermissionRule): PermissionAction {
  return pattern === "*" || action !== "allow" ? action : before;
}
