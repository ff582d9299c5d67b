/**
 * A live sandbox: its link, its readiness, its turns. `ready()` is the one way in: measured, started, challenged.
 * What is wanted (running, stopped, removed) is in the store; what is, is asked of the driver.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { ContainerIdentity } from "../protocol/locator.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../protocol/pin.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { attestMeasured, attestSandbox } from "./attestation.ts";
import { hostSettlement } from "./host-settlement.ts";
import { decideAfterDeath, decideRecovery } from "./recovery.ts";
import { forwardTo, type ModelRoute } from "./relay/forwarder.ts";
import { openSandboxLink, type SandboxLink } from "./sandbox-link.ts";
import {
  directoryModes,
  makeSandboxDirectory,
  removeSandboxDirectory,
  type SandboxPaths,
  sandboxToken,
  writeBridgeConfig,
} from "./sandboxes/directory.ts";
import type { SandboxDriver, SandboxSpec } from "./sandboxes/sandbox.ts";
import type { SandboxRow } from "./store/records.ts";
import type { Applied, Store } from "./store/store.ts";
import type { LiveTurn } from "./turn-handle.ts";
import { closeServer, listenOn } from "./unix-server.ts";

/** From a start to the bridge's hello. */
const CONNECT_MS = 20_000;
/** A broken link may come back by itself for so long before the sandbox is looked at. */
const LINK_GRACE_MS = 500;
const WATCH_MS = 1000;
const STOP_GRACE_MS = 20_000;

export interface SandboxContext {
  store: Store;
  driver: SandboxDriver;
  paths: SandboxPaths;
  clock: Clock;
  route: ModelRoute;
  onWarning(what: string, detail: string): void;
}

export interface LiveSandbox {
  readonly id: string;
  readonly turns: Map<string, LiveTurn>;
  /** Ready for a turn: attested in this start. Throws with the reason otherwise. */
  ready(): Promise<{ link: SandboxLink; container: ContainerIdentity }>;
  /** Listens for a bridge that may still run, so that its events come in. No effect when it does already. */
  attach(): Promise<void>;
  /** Names a turn that is about to be sent: recovery leaves it alone until `sent`. */
  holdUnsent(turn: string): () => void;
  stop(options: { abort: boolean }): Promise<void>;
  remove(): Promise<void>;
  close(): Promise<void>;
}

export function createLiveSandbox(id: string, context: SandboxContext): LiveSandbox {
  const { store, driver, paths, clock } = context;
  const turns = new Map<string, LiveTurn>();
  const unsent = new Set<string>();
  let link: SandboxLink | null = null;
  let closeModel: (() => Promise<void>) | null = null;
  let attaching: Promise<void> | null = null;
  let readying: Promise<{ link: SandboxLink; container: ContainerIdentity }> | null = null;
  let isAttested = false;
  let revivals = 0;
  let refusal: HoldfastError | null = null;
  let cancelWatch: () => void = () => undefined;
  const wakeUp: Array<() => void> = [];
  let isClosed = false;

  const row = (): SandboxRow => {
    const found = store.sandbox(id);
    if (found === null || found.wanted === "removed")
      throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${id}`);
    return found;
  };
  const specOf = ({ generation }: SandboxRow): SandboxSpec => ({
    storeId: store.id,
    sandboxId: id,
    generation,
    directory: paths.directory,
  });

  // --- the link

  function onApplied(applied: Applied): void {
    for (const entry of applied.events) {
      const { event } = entry;
      if ("turn" in event && event.type !== "turn.ended") turns.get(event.turn)?.event(entry);
    }
    for (const { turn, settlement } of applied.settled) settle(turn, settlement);
    for (const turn of applied.conflicts) {
      context.onWarning("native id of another member", turn);
      abort(turn).catch((error: unknown) =>
        context.onWarning("abort failed", asHoldfastError(error).message),
      );
    }
  }

  function settle(turn: string, settlement: Settlement): void {
    revivals = 0;
    turns.get(turn)?.settle(settlement);
    turns.delete(turn);
  }

  function onUp(): void {
    refusal = null;
    for (const wake of wakeUp.splice(0)) wake();
    recoverTurns().catch((error: unknown) => context.onWarning("recovery", asHoldfastError(error).message));
  }

  function onDown(cause: HoldfastError | null): void {
    isAttested = false;
    if (cause?.code === "ATTESTATION_FAILED") refusal = cause;
    for (const wake of wakeUp.splice(0)) wake();
    cancelWatch();
    if (!isClosed) cancelWatch = clock.after(LINK_GRACE_MS, watch);
  }

  async function attach(): Promise<void> {
    if (link !== null) return;
    attaching ??= (async () => {
      await makeSandboxDirectory(paths);
      const token = await sandboxToken(paths);
      const model = await listenOn(paths.modelSocket, directoryModes().file);
      forwardTo(model, context.route);
      closeModel = () => closeServer(model);
      link = await openSandboxLink({
        sandboxId: id,
        paths,
        token,
        store,
        clock,
        onUp,
        onDown,
        onApplied,
        onLost: (lost) => {
          for (const { turn, settlement } of lost) settle(turn, settlement);
        },
        onText: (frames) => {
          for (const frame of frames) turns.get(frame.turn)?.text(frame);
        },
      });
    })().finally(() => {
      attaching = null;
    });
    await attaching;
  }

  async function connected(limitMs: number): Promise<SandboxLink> {
    const deadline = clock.monotonicMs() + limitMs;
    for (;;) {
      if (link?.isUp()) return link;
      if (refusal !== null) throw refusal;
      const leftMs = deadline - clock.monotonicMs();
      if (leftMs <= 0 || isClosed)
        throw new HoldfastError("BRIDGE_GONE", `the bridge did not connect within ${limitMs} ms`);
      await new Promise<void>((resolve) => {
        const cancel = clock.after(Math.min(leftMs, WATCH_MS), resolve);
        wakeUp.push(() => {
          cancel();
          resolve();
        });
      });
    }
  }

  // --- readiness

  async function makeReady(): Promise<{ link: SandboxLink; container: ContainerIdentity }> {
    const found = row();
    const spec = specOf(found);
    const pinned = await driver.pinned();
    await attach();
    const container = found.container ?? (await createContainer(spec, pinned.helperSha256));
    const state = await driver.state(spec, container.containerId);
    if (state === "missing") throw new HoldfastError("CONTEXT_LOST", "the container is gone");
    if (state === "running" && isAttested && link?.isUp()) return { link, container };

    const measured = await driver.measure(spec, container.containerId);
    const goodReport = {
      pin: HELPER_PIN,
      features: [...HELPER_FEATURES],
      clis: [],
      proof: "0".repeat(64),
      helperSha256: pinned.helperSha256,
      epoch: 0,
    };
    // Nothing that fails the measuring is started at all.
    await judge(spec, container, attestMeasured({ pinned, measured, hasImage: driver.hasImage, goodReport }));
    if (state === "stopped") {
      refusal = null;
      await writeBridgeConfig(paths, await driver.bridgeConfig(spec));
      await driver.start(spec, container.containerId);
    }
    if (found.wanted !== "running") store.setWanted(id, "running");
    const live = await connected(CONNECT_MS).catch((error: unknown) => judgeFailure(spec, container, error));
    const reasons = await attestSandbox({
      pinned,
      measured,
      hasImage: driver.hasImage,
      token: await sandboxToken(paths),
      challenge: (nonce) => live.request("bridge.challenge", { nonce }),
    });
    await judge(spec, container, reasons);
    isAttested = true;
    return { link: live, container };
  }

  async function createContainer(spec: SandboxSpec, helperSha256: string): Promise<ContainerIdentity> {
    await writeBridgeConfig(paths, await driver.bridgeConfig(spec));
    const { containerId, imageId } = await driver.create(spec);
    const container = { sandboxId: id, generation: spec.generation, containerId, imageId, helperSha256 };
    store.bindContainer(id, container);
    return container;
  }

  /** Records the verdict; a helper that is not the pinned one is stopped and not started again. */
  async function judge(
    spec: SandboxSpec,
    container: ContainerIdentity,
    reasons: readonly string[],
  ): Promise<void> {
    const before = store.sandbox(id)?.unready ?? null;
    if (reasons.length === 0) {
      if (before !== null) store.setUnready(id, null);
      return;
    }
    store.setUnready(id, reasons);
    await driver.stop(spec, container.containerId, STOP_GRACE_MS);
    throw new HoldfastError("ATTESTATION_FAILED", `the sandbox is not ready: ${reasons.join("; ")}`);
  }

  async function judgeFailure(
    spec: SandboxSpec,
    container: ContainerIdentity,
    error: unknown,
  ): Promise<never> {
    const fault = asHoldfastError(error);
    if (fault.code === "ATTESTATION_FAILED") await judge(spec, container, [fault.message]);
    const tail = await driver.logTail(spec, container.containerId);
    throw new HoldfastError(
      fault.code,
      `${fault.message}${tail === "" ? "" : `; its last words: ${tail.trim().split("\n").at(-1)}`}`,
    );
  }

  // --- turns without an end

  async function recoverTurns(): Promise<void> {
    for (const turn of store.openTurnsOf(id)) {
      if (unsent.has(turn.id) || link === null) continue;
      const { state } = await link.request("turn.recover", {
        turn: turn.id,
        member: turn.member,
        number: turn.number,
      });
      const decision = decideRecovery(state);
      if (decision.kind === "end") endOpen(turn.id, decision.outcome, decision.what, decision.reason);
    }
  }

  function endOpen(turn: string, outcome: "not_sent" | "unknown", what: string, reason: string): void {
    const code = outcome === "not_sent" ? "BRIDGE_GONE" : "DELIVERY_UNKNOWN";
    const settlement = hostSettlement({ outcome, code, reason, what, at: clock.nowAt() });
    if (store.end(turn, settlement)) settle(turn, settlement);
  }

  /** The link is gone: while turns wait for an end, finds out whether their sandbox still lives. */
  function watch(): void {
    if (isClosed || link?.isUp()) return;
    look().catch((error: unknown) => {
      context.onWarning("watch", asHoldfastError(error).message);
      cancelWatch = clock.after(WATCH_MS, watch);
    });
  }

  async function look(): Promise<void> {
    const found = store.sandbox(id);
    const open = store.openTurnsOf(id).filter((turn) => !unsent.has(turn.id));
    if (open.length === 0 || found?.container == null) return;
    const state = await driver.state(specOf(found), found.container.containerId);
    const decision = found.wanted === "running" ? decideAfterDeath(state, revivals) : "unknown";
    if (decision === "unknown") {
      for (const turn of open)
        endOpen(turn.id, "unknown", "sandbox_gone", `the sandbox is ${state}; nobody saw the turn's end`);
      return;
    }
    if (decision === "revive") {
      revivals += 1;
      context.onWarning(
        "the sandbox ended during a turn",
        "it is started again, so that its journal can say what became of it",
      );
      await ready();
      return;
    }
    cancelWatch = clock.after(WATCH_MS, watch);
  }

  async function abort(turn: string): Promise<void> {
    if (link === null) throw new HoldfastError("LINK_CLOSED");
    await link.request("turn.abort", { turn });
  }

  function ready(): Promise<{ link: SandboxLink; container: ContainerIdentity }> {
    if (isClosed) return Promise.reject(new HoldfastError("STOPPED"));
    readying ??= makeReady().finally(() => {
      readying = null;
    });
    return readying;
  }

  async function detach(): Promise<void> {
    cancelWatch();
    const open = link;
    link = null;
    isAttested = false;
    await open?.close();
    await closeModel?.();
    closeModel = null;
  }

  return {
    id,
    turns,
    ready,
    attach,
    holdUnsent(turn) {
      unsent.add(turn);
      return () => unsent.delete(turn);
    },
    async stop({ abort: mayAbort }) {
      const found = row();
      const open = store.openTurnsOf(id);
      if (open.length > 0 && !mayAbort) {
        throw new HoldfastError("MEMBER_BUSY", `${open.length} turn(s) run in the sandbox; abort them first`);
      }
      store.setWanted(id, "stopped");
      if (found.container === null) return;
      // Attached, so that the settlements of what the bridge aborts come in before it ends.
      await attach();
      await driver.stop(specOf(found), found.container.containerId, STOP_GRACE_MS);
      for (const turn of store.openTurnsOf(id)) {
        endOpen(turn.id, "unknown", "sandbox_stopped", "the sandbox was stopped; nobody saw the turn's end");
      }
      await detach();
    },
    async remove() {
      const found = store.sandbox(id);
      if (found === null) throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${id}`);
      store.setWanted(id, "removed");
      if (found.container !== null) await driver.remove(specOf(found), found.container.containerId);
      for (const turn of store.openTurnsOf(id)) {
        endOpen(turn.id, "unknown", "sandbox_removed", "the sandbox was removed; nobody saw the turn's end");
      }
      await detach();
      await removeSandboxDirectory(paths);
    },
    async close() {
      isClosed = true;
      for (const wake of wakeUp.splice(0)) wake();
      await detach();
      for (const turn of turns.values())
        turn.fail(new HoldfastError("STOPPED", "this controller closed; the turn goes on"));
      turns.clear();
    },
  };
}
