/**
 * The sandbox contract: what the controller needs of a place where a bridge runs. A driver makes, starts, stops and
 * measures one; what a measurement is worth is decided by `attestation.ts`. Every call is bounded.
 */
import type { AttestationFacts } from "../../protocol/attestation.ts";
import type { BridgeConfig } from "../../protocol/bridge-config.ts";
import type { SandboxKind } from "../store/records.ts";

export interface SandboxSpec {
  /** Of the store that the sandbox belongs to: several stores may share an engine. */
  storeId: string;
  sandboxId: string;
  generation: number;
  /** The host's directory of this sandbox; the bridge sees it read-only. */
  directory: string;
}

export type SandboxState = "running" | "stopped" | "missing";

/** What the pinned build is; the same for every sandbox of a host. */
export interface PinnedBuild {
  helperSha256: string;
  imageId: string | null;
  manifestSha256: string | null;
  clis: ReadonlyArray<{ cli: string; version: string }>;
  /** Names of the variables that the bridge's process is given. */
  environment: readonly string[];
}

export interface SandboxDriver {
  readonly kind: SandboxKind;
  readonly hasImage: boolean;
  /** Throws IMAGE_MISSING, ENGINE_MISSING. */
  pinned(): Promise<PinnedBuild>;
  /** What the bridge must be told, beyond the host's own paths. */
  bridgeConfig(spec: SandboxSpec, containerId: string): Promise<BridgeConfig>;
  /** Makes it, without starting it. Returns the id that it is bound to from now on. */
  create(spec: SandboxSpec): Promise<{ containerId: string; imageId: string }>;
  start(spec: SandboxSpec, containerId: string): Promise<void>;
  /**
   * Polite, then forced, within the limit. No effect on one that does not run. Returns what its bridge ended with (137:
   * it was killed), or null where nobody can know.
   */
  stop(spec: SandboxSpec, containerId: string, graceMs: number): Promise<number | null>;
  /** Removes it with everything in it. No effect when it is gone. */
  remove(spec: SandboxSpec, containerId: string): Promise<void>;
  state(spec: SandboxSpec, containerId: string): Promise<SandboxState>;
  /** Taken anew before every start. */
  measure(spec: SandboxSpec, containerId: string): Promise<AttestationFacts["measured"]>;
  /** All places that carry this store's mark, in one look; [] for a kind that keeps no list. */
  list(storeId: string): Promise<Array<{ sandboxId: string; containerId: string; wasStarted: boolean }>>;
  /** The end of what the bridge printed. */
  logTail(spec: SandboxSpec, containerId: string): Promise<string>;
}
