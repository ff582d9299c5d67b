/** Environment and configuration of a server process. Pure. */
import type { Launch } from "../../../protocol/launch.ts";
import { askedTools } from "../../../protocol/permission-policy.ts";
import type { Slot } from "../../slots.ts";
import { slotEnvironment } from "../environment.ts";
import type { ServeTraits } from "./traits.ts";

/** The provider's name in the CLI's configuration; fixed, so that a restart changes no request. */
export const PROVIDER = "holdfast";

export function launchEnvironment(options: {
  traits: ServeTraits;
  slot: Slot;
  launch: Launch;
  modelUrl: string;
  modelKey: string;
  password: string;
  /** The bridge's own search path. */
  path: string;
}): Record<string, string> {
  const { traits, slot } = options;
  return {
    ...slotEnvironment(slot, options.path),
    [traits.passwordVariable]: options.password,
    [traits.backgroundVariable]: String(options.launch.background),
    [traits.configVariable]: JSON.stringify(serverConfig(options)),
    ...traits.quietVariables,
  };
}

/** The CLI's configuration. The model is pinned by name, so that a restart breaks no prefix of a request. */
export function serverConfig(options: {
  traits: ServeTraits;
  launch: Launch;
  modelUrl: string;
  modelKey: string;
}): unknown {
  const { traits, launch } = options;
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
        options: { baseURL: `${options.modelUrl}/v1`, apiKey: options.modelKey },
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
