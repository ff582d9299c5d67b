/**
 * The bridge's program: one process under tini in a sandbox's container, or a plain child in a `process` sandbox.
 *
 *   bridge.cjs [CONFIG]     runs (default: /run/holdfast/bridge.json)
 *   bridge.cjs --pin        prints the helper pin and ends
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import * as z from "zod/mini";
import type { HelperReport } from "../protocol/attestation.ts";
import type { BridgeConfig } from "../protocol/bridge-config.ts";
import { asHoldfastError } from "../protocol/errors.ts";
import { CliName } from "../protocol/locator.ts";
import { HELPER_PIN } from "../protocol/pin.ts";
import { startBridge } from "./bridge.ts";
import { realClock } from "./clock.ts";
import { DEFAULT_CONFIG_PATH, readConfig } from "./config.ts";
import { stderrLog } from "./log.ts";
import { checkPlaces } from "./preflight.ts";

/** What the image build wrote about itself; only the CLIs are read here. */
const MANIFEST_PATH = "/opt/holdfast/manifest.json";
const Manifest = z.object({ clis: z.array(z.object({ cli: CliName, version: z.string() })) });

/** An abort, two rounds of signals and the last events fit in; the controller kills 10 s later. */
const STOP_LIMIT_MS = 50_000;

async function main(): Promise<void> {
  if (process.argv[2] === "--pin") {
    process.stdout.write(`${HELPER_PIN}\n`);
    return;
  }
  const log = stderrLog();
  // 1. Who we are and for whom.
  const config = readConfig(process.argv[2] ?? DEFAULT_CONFIG_PATH);
  const token = readFileSync(config.tokenFile, "utf8").trim();
  const helperSha256 = createHash("sha256")
    .update(readFileSync(process.argv[1] ?? ""))
    .digest("hex");

  // 2. Nothing may keep us alive without a journal, and nothing may end us in silence.
  const end = (error: unknown) => {
    const { code, message } = asHoldfastError(error);
    log.warn("bridge ends", { code, error: message });
    process.exit(1);
  };
  process.on("uncaughtException", end);
  process.on("unhandledRejection", end);

  // 3. Places, journal, inlet, members, link.
  await checkPlaces(config);
  const bridge = await startBridge({
    config,
    token,
    helperSha256,
    clis: installedClis(config),
    clock: realClock,
    log,
    onBroken: end,
  });
  log.info("bridge ready", { pin: HELPER_PIN, sandbox: config.sandboxId });

  // 4. Wait for a signal, stop in order, within a limit: whoever sent it kills us at its own.
  let isStopping = false;
  const stop = (signal: string) => {
    if (isStopping) return;
    isStopping = true;
    log.info("bridge stops", { signal });
    realClock.after(STOP_LIMIT_MS, () => end(new Error(`not stopped within ${STOP_LIMIT_MS} ms`)));
    bridge.stop().then(() => {
      log.info("bridge stopped");
      process.exit(0);
    }, end);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => stop(signal));
}

/** What the image says is in it; in a `process` sandbox, which has no image, what the configuration names. */
function installedClis(config: BridgeConfig): HelperReport["clis"] {
  if (config.isolation === "container" && existsSync(MANIFEST_PATH)) {
    return Manifest.parse(JSON.parse(readFileSync(MANIFEST_PATH, "utf8"))).clis.map(({ cli, version }) => ({
      cli,
      version,
    }));
  }
  return config.clis.map(({ cli, version }) => ({ cli, version }));
}

main().catch((error: unknown) => {
  // The host reads the code from this last line (`controller/last-words.ts`).
  const { code, message } = asHoldfastError(error);
  process.stderr.write(
    `${JSON.stringify({ level: "error", what: "bridge can't start", code, error: message })}\n`,
  );
  process.exit(1);
});
