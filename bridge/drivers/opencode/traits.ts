/** OpenCode 1.18.33, as data. */
import type { ServeTraits } from "../serve/traits.ts";

export const OPENCODE: ServeTraits = {
  cli: "opencode",
  args: ["serve", "--port", "0", "--hostname", "127.0.0.1"],
  readyLine: /^opencode server listening on http:\/\/127\.0\.0\.1:(\d+)\s*$/m,
  userName: "opencode",
  passwordVariable: "OPENCODE_SERVER_PASSWORD",
  configVariable: "OPENCODE_CONFIG_CONTENT",
  hasTurnBrackets: false,
  ordersById: false,
  asksForNetwork: false,
  backgroundTools: [],
  backgroundVariable: "OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS",
  packagesLock: {
    path: "opencode/package-lock.json",
    text: '{"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}\n',
  },
  stateFolder: "data/opencode",
  quietVariables: {
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    DO_NOT_TRACK: "1",
  },
};
