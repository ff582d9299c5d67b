/**
 * A sandbox driver without containers: what it says of a sandbox is set by the test, and starting one makes its fake
 * bridge dial. It keeps what it was asked, in order.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type {
  PinnedBuild,
  SandboxDriver,
  SandboxSpec,
  SandboxState,
} from "../../controller/sandboxes/sandbox.ts";
import type { SandboxKind } from "../../controller/store/records.ts";
import type { AttestationFacts } from "../../protocol/attestation.ts";
import { type BridgeConfig, DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { FakeBridge } from "./fake-bridge.ts";
import { DIGEST_A, DIGEST_B } from "./samples.ts";

export const BUILD: PinnedBuild = {
  helperSha256: DIGEST_A,
  imageId: "sha256:1234",
  manifestSha256: DIGEST_B,
  clis: [{ cli: "opencode", version: "1.14.50" }],
  environment: [],
};

type Step = "pinned" | "create" | "start" | "stop" | "remove" | "state" | "measure" | "list";

export class FakeSandboxes implements SandboxDriver {
  readonly kind: SandboxKind = "docker";
  readonly hasImage = true;
  build: PinnedBuild = BUILD;
  /** What is measured otherwise than pinned. */
  measured: Partial<AttestationFacts["measured"]> = {};
  logText = "";
  /** What a stopped bridge ended with. */
  exitCode: number | null = 0;
  /** What carries the store's mark when a controller takes over. */
  listed: Array<{ sandboxId: string; containerId: string; wasStarted: boolean }> = [];
  /** Steps that were asked, without the looking ones. */
  readonly calls: string[] = [];
  /** Bridges that could not do what they were to do at their start. */
  readonly faults: string[] = [];
  readonly states = new Map<string, SandboxState>();
  readonly bridges = new Map<string, FakeBridge>();
  /** Runs before a step; throws or waits to make it fail or last. */
  readonly before: Partial<Record<Step, (spec: SandboxSpec | null) => unknown>> = {};
  /** What a started bridge does. */
  onStart: (bridge: FakeBridge) => Promise<unknown> = (bridge) => bridge.dial();

  count(step: Step): number {
    return this.calls.filter((call) => call === step).length;
  }

  /** The bridge of a sandbox that was created; its journal stays over its starts. */
  bridge(sandboxId: string): FakeBridge {
    const found = this.bridges.get(sandboxId);
    if (found === undefined) throw new Error(`sandbox ${sandboxId} was not created`);
    return found;
  }

  /** It ends by itself, all at once. */
  die(sandboxId: string, state: SandboxState = "stopped"): void {
    this.states.set(sandboxId, state);
    this.bridge(sandboxId).vanish();
  }

  async pinned(): Promise<PinnedBuild> {
    await this.before.pinned?.(null);
    return this.build;
  }

  async bridgeConfig(spec: SandboxSpec): Promise<BridgeConfig> {
    const at = (name: string) => join(spec.directory, name);
    return {
      storeId: spec.storeId,
      sandboxId: spec.sandboxId,
      isolation: "container",
      controllerSocket: at("ctl.sock"),
      modelSocket: at("model.sock"),
      tokenFile: at("token"),
      stateDirectory: "/state",
      slotsDirectory: "/slots",
      workspace: "/workspace",
      users: null,
      clis: [{ cli: "opencode", version: "1.14.50", command: ["opencode"] }],
      limits: DEFAULT_LIMITS,
    };
  }

  async create(spec: SandboxSpec): Promise<{ containerId: string; imageId: string }> {
    await this.#step("create", spec);
    this.states.set(spec.sandboxId, "stopped");
    const { helperSha256 } = this.build;
    this.bridges.set(spec.sandboxId, new FakeBridge({ ...spec, helperSha256 }));
    return { containerId: `container-${spec.sandboxId}`, imageId: this.build.imageId ?? "" };
  }

  async start(spec: SandboxSpec): Promise<void> {
    await this.#step("start", spec);
    await readFile(join(spec.directory, "bridge.json"));
    this.states.set(spec.sandboxId, "running");
    const bridge = this.bridge(spec.sandboxId);
    bridge.epoch += 1;
    // As a process would: at its own time, and on its own.
    setImmediate(() => {
      if (this.states.get(spec.sandboxId) !== "running") return;
      this.onStart(bridge).catch((error: unknown) => this.faults.push(String(error)));
    });
  }

  async stop(spec: SandboxSpec): Promise<number | null> {
    await this.#step("stop", spec);
    if (this.states.get(spec.sandboxId) === "running") this.die(spec.sandboxId);
    return this.exitCode;
  }

  async remove(spec: SandboxSpec): Promise<void> {
    await this.#step("remove", spec);
    this.bridges.get(spec.sandboxId)?.vanish();
    this.states.set(spec.sandboxId, "missing");
  }

  async state(spec: SandboxSpec): Promise<SandboxState> {
    await this.before.state?.(spec);
    return this.states.get(spec.sandboxId) ?? "missing";
  }

  async measure(spec: SandboxSpec): Promise<AttestationFacts["measured"]> {
    await this.before.measure?.(spec);
    return {
      imageId: this.build.imageId,
      pinLabel: HELPER_PIN,
      helper: { sha256: this.build.helperSha256 },
      manifest: { sha256: this.build.manifestSha256 ?? "" },
      foreignMounts: [],
      changedCode: [],
      ...this.measured,
    };
  }

  async list(): Promise<FakeSandboxes["listed"]> {
    await this.before.list?.(null);
    return this.listed;
  }

  async logTail(): Promise<string> {
    return this.logText;
  }

  async #step(step: Step, spec: SandboxSpec): Promise<void> {
    this.calls.push(step);
    await this.before[step]?.(spec);
  }
}
