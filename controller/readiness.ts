/**
 * Brings a sandbox up until it may take a turn: measured, started when it does not run, challenged. Whatever is not
 * exactly the pinned helper is recorded, stopped and not started.
 */
import type { AttestationFacts, HelperReport } from "../protocol/attestation.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { ContainerIdentity } from "../protocol/locator.ts";
import { attestMeasured, attestSandbox } from "./attestation.ts";
import { lastWords } from "./last-words.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import { type SandboxPaths, sandboxToken, writeBridgeConfig } from "./sandboxes/directory.ts";
import type { PinnedBuild, SandboxDriver, SandboxSpec } from "./sandboxes/sandbox.ts";
import type { Store } from "./store/store.ts";

type Measured = AttestationFacts["measured"];

/** From a start to the bridge's hello. */
const CONNECT_MS = 20_000;
/** For a helper that was refused; one that is stopped in order gets more. */
const REFUSED_STOP_MS = 20_000;

export interface ReadinessOptions {
  store: Store;
  driver: SandboxDriver;
  paths: SandboxPaths;
  spec: SandboxSpec;
  pinned: PinnedBuild;
  /** The one it is bound to, or null when none was made yet. */
  container: ContainerIdentity | null;
  /** What was attested in this start, or null. */
  attested(): Omit<Ready, "container"> | null;
  /** The next link that comes up within the limit; throws what is known of the failure. */
  connected(limitMs: number): Promise<SandboxLink>;
  /** Turns run in it. One of an earlier build is then followed to their end, and takes no new one. */
  isBusy(): boolean;
  /** Told right before a start. Throws STOPPED when this controller closes: the engine is another's by then. */
  onStart(): void;
}

export interface Ready {
  link: SandboxLink;
  container: ContainerIdentity;
  /** It was made by an earlier build, and is what that made it: the reasons for which it takes no new turn. Or null. */
  outdated: string | null;
}

/** Throws ATTESTATION_FAILED, CONTEXT_LOST, BRIDGE_GONE, or what the driver threw. */
export async function makeReady(options: ReadinessOptions): Promise<Ready> {
  const { store, driver, paths, spec, pinned } = options;
  const container = options.container ?? (await createContainer(options));
  const state = await driver.state(spec, container.containerId);
  if (state === "missing") throw new HoldfastError("CONTEXT_LOST", "the container is gone");
  const attested = options.attested();
  if (state === "running" && attested !== null) return { ...attested, container };

  const measured = await driver.measure(spec, container.containerId);
  const { hasImage } = driver;
  const reasons = attestMeasured({ pinned, measured, hasImage });
  const former = formerBuild(container, measured);
  const isOutdated =
    reasons.length > 0 &&
    state === "running" &&
    options.isBusy() &&
    attestMeasured({ pinned: former, measured, hasImage }).length === 0;
  // Nothing that fails the measuring is started at all.
  if (!isOutdated) await judge(options, container, reasons);
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
  const answers: HelperReport[] = [];
  const challenged = await attestSandbox({
    pinned: isOutdated ? former : pinned,
    measured,
    hasImage,
    token: await sandboxToken(paths),
    async challenge(nonce) {
      const answer = await link.request("bridge.challenge", { nonce });
      answers.push(answer);
      return answer;
    },
  });
  await judge(options, container, challenged);
  for (const { epoch, earlierEnd } of answers)
    store.audit("bridge.life", spec.sandboxId, `life ${epoch}, the end of the one before: ${earlierEnd}`);
  const outdated = isOutdated ? `it was made by an earlier build: ${reasons.join("; ")}` : null;
  if (outdated !== null) store.audit("sandbox.outdated", spec.sandboxId, outdated);
  return { link, container, outdated };
}

/** What the sandbox was made of, as far as its record and its own image say. */
function formerBuild(container: ContainerIdentity, { manifest }: Measured): PinnedBuild {
  const { helperSha256, imageId } = container;
  // The image is known by its id, and nothing of it may have been changed: so is its manifest.
  const manifestSha256 = manifest !== null && "sha256" in manifest ? manifest.sha256 : null;
  return { helperSha256, imageId, manifestSha256, clis: [], environment: [] };
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
  await driver.stop(spec, container.containerId, REFUSED_STOP_MS);
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
