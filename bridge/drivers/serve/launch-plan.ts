/** Environment and configuration of a server process. Pure. */
import type { Launch } from "../../../protocol/launch.ts";
import { askedTools } from "../../../protocol/permission-policy.ts";
import type { Slot } from "../../slots.ts";
import type { ServeTraits } from "./traits.ts";

/** The provider's name in the CLI's configuration; fixed, so that a restart changes no request. */
export const PROVIDER = "holdfast";

/** Stands where a key would: worth nothing, the host puts the real one in its place. */
const PLACEHOLDER_KEY = "holdfast-no-key";

export function launchEnvironment(options: {
  traits: ServeTraits;
  slot: Slot;
  launch: Launch;
  modelUrl: string;
  password: string;
  /** The bridge's own search path. */
  path: string;
}): Record<string, string> {
  const { traits, slot } = options;
  return {
    PATH: options.path,
    LANG: "C.UTF-8",
    HOME: slot.home,
    XDG_DATA_HOME: slot.data,
    XDG_CONFIG_HOME: slot.config,
    XDG_STATE_HOME: slot.state,
    XDG_CACHE_HOME: slot.cache,
    // The model's inlet is on loopback: never through a proxy.
    NO_PROXY: "127.0.0.1,localhost",
    no_proxy: "127.0.0.1,localhost",
    // The shared workspace has another owner than this slot; without this git exits 128.
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "safe.directory",
    GIT_CONFIG_VALUE_0: "*",
    [traits.passwordVariable]: options.password,
    [traits.backgroundVariable]: String(options.launch.background),
    [traits.configVariable]: JSON.stringify(serverConfig(traits, options.launch, options.modelUrl)),
    ...traits.quietVariables,
  };
}

/** The CLI's configuration. The model is pinned by name, so that a restart breaks no prefix of a request. */
export function serverConfig(traits: ServeTraits, launch: Launch, modelUrl: string): unknown {
  const { model } = launch;
  return {
    model: `${PROVIDER}/${model.name}`,
    small_model: `${PROVIDER}/${model.name}`,
    share: "disabled",
    autoupdate: false,
    permission: nativePermissions(traits, launch),
    provider: {
      [PROVIDER]: {
        npm: "@ai-sdk/openai-compatible",
        name: "Holdfast",
        options: { baseURL: `${modelUrl}/v1`, apiKey: PLACEHOLDER_KEY },
        models: {
          [model.name]: {
            name: model.name,
            tool_call: true,
            limit: { context: model.contextTokens, output: model.outputTokens },
          },
        },
      },
    },
  };
}

/**
 * What the CLI must ask for, so that the policy is heard; and what it must not even try. The answer to each ask is the
 * bridge's, from the policy, request by request.
 */
function nativePermissions(traits: ServeTraits, launch: Launch): Record<string, "ask" | "deny"> {
  const asked = askedTools(launch.permissions);
  const denied = launch.background ? [] : traits.backgroundTools;
  return Object.fromEntries([
    ...(asked === "all" ? ["*"] : asked).map((tool) => [tool, "ask"] as const),
    ...denied.map((tool) => [tool, "deny"] as const),
  ]);
}
