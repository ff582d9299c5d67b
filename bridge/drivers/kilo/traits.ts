/** Kilo 7.7.7, a fork of OpenCode, as data. What it does differently: facts `opencode-kilo`, sections 3.6, 4.1, 13. */
import type { ServeTraits } from "../serve/traits.ts";

export const KILO: ServeTraits = {
  cli: "kilo",
  args: ["serve", "--port", "0", "--hostname", "127.0.0.1"],
  readyLine: /^kilo server listening on http:\/\/127\.0\.0\.1:(\d+)\s*$/m,
  userName: "kilo",
  passwordVariable: "KILO_SERVER_PASSWORD",
  configVariable: "KILO_CONFIG_CONTENT",
  hasTurnBrackets: true,
  ordersById: true,
  asksForNetwork: true,
  backgroundTools: ["schedule_wakeup", "background_process"],
  backgroundVariable: "KILO_EXPERIMENTAL_BACKGROUND_SUBAGENTS",
  packagesLock: null,
  stateFolder: "data/kilo",
  quietVariables: {
    KILO_DISABLE_MODELS_FETCH: "1",
    KILO_TELEMETRY_LEVEL: "off",
    KILO_DISABLE_SESSION_INGEST: "1",
    KILO_DISABLE_PRESENCE: "1",
    KILO_DISABLE_CODEBASE_INDEXING: "1",
    KILO_DISABLE_DEFAULT_PLUGINS: "1",
    KILO_DISABLE_AUTOUPDATE: "1",
    DO_NOT_TRACK: "1",
  },
};
