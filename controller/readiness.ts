/**
 * Brings a sandbox up until it may take a turn: measured, started when it does not run, challenged. Whatever is not
 * exactly the pinned helper is recorded, stopped and not started.
 */
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { ContainerIdentity } from "../protocol/locator.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../protocol/pin.ts";
import { attestMeasured, attestSandbox } from "./attestation.ts";
import { lastWords } from "./last-words.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import { type SandboxPaths, sandboxToken, writeBridgeConfig } from "./sandboxes/directory.ts";
import type { PinnedBuild, SandboxDriver, SandboxSpec } from "./sandboxes/sandbox.ts";
import type { Store } from "./store/store.ts";

/** From a start to the bridge's hello. */
const CONNECT_MS = 20_000;
export const STOP_GRACE_MS = 20_000;

export interface ReadinessOptions {
  store: Store;
  driver: SandboxDriver;
  paths: SandboxPaths;
  spec: SandboxSpec;
  pinned: PinnedBuild;
  /** The one it is bound to, or null when none was made yet. */
  container: ContainerIdentity | null;
  /** The link of a helper that was attested in this start, or null. */
  attested(): SandboxLink | null;
  /** The next link that comes up within the limit; throws what is known of the failure. */
  connected(limitMs: number): Promise<SandboxLink>;
  /** Told right before a start. Throws STOPPED when this controller closes: the engine is another's by then. */
  onStart(): void;
}

export interface Ready {
  link: SandboxLink;
  container: ContainerIdentity;
}

/** Throws ATTESTATION_FAILED, CONTEXT_LOST, BRIDGE_GONE, or what the driver threw. */
export async function makeReady(options: ReadinessOptions): Promise<Ready> {
  const { store, driver, paths, spec, pinned } = options;
  const container = options.container ?? (await createContainer(options));
  const state = await driver.state(spec, container.containerId);
  if (state === "missing") throw new HoldfastError("CONTEXT_LOST", "the container is gone");
  const attested = options.attested();
  if (state === "running" && attested !== null) return { link: attested, container };

  const measured = await driver.measure(spec, container.containerId);
  const goodReport = {
    pin: HELPER_PIN,
    features: [...HELPER_FEATURES],
    clis: [],
    proof: "0".repeat(64),
    helperSha256: pinned.helperSha256,
    epoch: 0,
  };
  const { hasImage } = driver;
  // Nothing that fails the measuring is started at all.
  await judge(options, container, attestMeasured({ pinned, measured, hasImage, goodReport }));
  if (state === "stopped") {
    options.onStart();
    await writeBridgeConfig(paths, await driver.bridgeConfig(spec, container.containerId));
    // The record comes first: it is also what keeps a stale controller from the engine (law 12).
    store.audit("sandbox.start", spec.sandboxId, container.containerId);
    await driver.start(spec, container.containerId);
  }
  const link = await options.connected(CONNECT_MS).catch(async (error: unknown) => {
    // It was found running and has died since: not a start of ours that failed, but one that is due.
    if (state === "running" && (await driver.state(spec, container.containerId)) === "stopped") return null;
    return judgeFailure(options, container, error);
  });
  if (link === null) return makeReady(options);
  const reasons = await attestSandbox({
    pinned,
    measured,
    hasImage,
    token: await sandboxToken(paths),
    challenge: (nonce) => link.request("bridge.challenge", { nonce }),
  });
  await judge(options, container, reasons);
  return { link, container };
}

async function createContainer(options: ReadinessOptions): Promise<ContainerIdentity> {
  const { store, driver, spec, pinned } = options;
  const { sandboxId, generation } = spec;
  options.onStart();
  store.audit("sandbox.make", sandboxId, String(generation));
  const { containerId, imageId } = await driver.create(spec);
  const { helperSha256 } = pinned;
  const container = { sandboxId, generation, containerId, imageId, helperSha256 };
  store.bindContainer(sandboxId, container);
  return container;
}

/** Records the verdict; a helper that is not the pinned one is stopped and not started again. */
async function judge(
  { store, driver, spec }: ReadinessOptions,
  container: ContainerIdentity,
  reasons: readonly string[],
): Promise<void> {
  if (reasons.length === 0) {
    if (store.sandbox(spec.sandboxId)?.unready != null) store.setUnready(spec.sandboxId, null);
    return;
  }
  store.setUnready(spec.sandboxId, reasons);
  await driver.stop(spec, container.containerId, STOP_GRACE_MS);
  throw new HoldfastError("ATTESTATION_FAILED", `the sandbox is not ready: ${reasons.join("; ")}`);
}

async function judgeFailure(
  options: ReadinessOptions,
  container: ContainerIdentity,
  error: unknown,
): Promise<never> {
  const fault = asHoldfastError(error);
  if (fault.code === "ATTESTATION_FAILED") await judge(options, container, [fault.message]);
  if (fault.code !== "BRIDGE_GONE") throw fault;
  throw lastWords(fault, await options.driver.logTail(options.spec, container.containerId));
}
