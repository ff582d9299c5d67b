/**
 * A live sandbox: its link, its readiness, its turns. `ready()` is the one way in: measured, started, challenged.
 * What is wanted (running, stopped, removed) is in the store; what is, is asked of the driver.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { knownLaunch } from "./admission.ts";
import { catchUp } from "./catch-up.ts";
import { createModelDoor } from "./model-door.ts";
import { makeReady, type Ready } from "./readiness.ts";
import type { Relay } from "./relay/relay.ts";
import { openSandboxLink, type SandboxLink } from "./sandbox-link.ts";
import { createSandboxSight, type SandboxSight } from "./sandbox-sight.ts";
import {
  makeSandboxDirectory,
  removeSandboxDirectory,
  type SandboxPaths,
  sandboxToken,
} from "./sandboxes/directory.ts";
import type { SandboxDriver, SandboxSpec } from "./sandboxes/sandbox.ts";
import type { SandboxRow } from "./store/records.ts";
import type { Applied, Store } from "./store/store.ts";
import type { LiveTurn } from "./turn-handle.ts";
import { createTurnWatch } from "./turn-watch.ts";

/** The bridge stops in order within 50 s, and ends by itself beyond; then the engine kills it. */
const STOP_GRACE_MS = 60_000;
/** What a container ends with that was killed. */
const KILLED = 137;
/** While a bridge is awaited: so often it is looked whether it still runs. */
const STILL_RUNS_MS = 1000;
/** After a stop: what the bridge said last is read for so long at most. */
const LAST_WORDS_MS = 1000;

export interface SandboxContext {
  store: Store;
  driver: SandboxDriver;
  paths: SandboxPaths;
  clock: Clock;
  /** This controller took the store from another one, which may still listen. */
  takeOver: boolean;
  relay: Relay;
  onWarning(what: string, detail: string): void;
  /** Told of what happens in it, behind the store. */
  observer: {
    applied(entries: Applied["events"]): void;
    settled(turn: string): void;
    linkUp(): void;
  };
}

export interface LiveSandbox extends SandboxSight {
  readonly id: string;
  readonly turns: Map<string, LiveTurn>;
  /** Ready for a turn: attested in this start. Throws with the reason otherwise. */
  ready(): Promise<Ready>;
  /**
   * Takes up the turns that an earlier controller left open: a running sandbox dials in, a stopped one is started, a
   * missing one ends its turns. Returns once it listens, or with the reason why it can't; that is tried again.
   */
  takeUp(): Promise<HoldfastError | null>;
  /** Listens for a bridge that may still run, so that its events come in. */
  attach(): Promise<void>;
  /** Asks the bridge what became of turns whose submission it did not answer clearly. */
  recover(): void;
  /** Names a turn that is about to be sent: recovery leaves it alone until `sent`. */
  holdUnsent(turn: string): () => void;
  /** Ends a start that is under way. Throws MEMBER_BUSY while turns run, unless `abort`. */
  stop(options: { abort: boolean }): Promise<void>;
  remove(): Promise<void>;
  /** Lets go of everything; the turns' handles fail with STOPPED, or with the reason. */
  close(why?: HoldfastError): Promise<void>;
}

export function createLiveSandbox(id: string, context: SandboxContext): LiveSandbox {
  const { store, driver, paths, clock, takeOver } = context;
  const turns = new Map<string, LiveTurn>();
  const unsent = new Set<string>();
  const door = createModelDoor({ sandbox: id, store, relay: context.relay, paths, takeOver, unsent });
  let link: SandboxLink | null = null;
  let attaching: Promise<void> | null = null;
  let readying: Promise<Ready> | null = null;
  /** A stop or a removal that is under way; it never rejects. */
  let ending: Promise<void> | null = null;
  let isAttested = false;
  /** Links that came up so far: whoever awaits something knows whether it is still the same one. */
  let links = 0;
  /** Why the one that was attested takes no new turn. */
  let outdated: string | null = null;
  /** Why the bridge that dialled last was refused. */
  let refusal: HoldfastError | null = null;
  const wakeUp: Array<() => void> = [];
  let isClosed = false;
  let closedBy: HoldfastError | null = null;

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
  const isBusy = () => store.openTurnsOf(id).some((turn) => !unsent.has(turn.id));
  const isQuiet = () => isClosed || ending !== null;

  const watch = createTurnWatch({
    sandboxId: id,
    store,
    driver,
    clock,
    unsent,
    specOf,
    async launchOf(member) {
      const found = store.member(member);
      const pinned = await driver.pinned().catch(() => null);
      return found === null || pinned === null ? null : (knownLaunch(found, pinned)?.launch ?? null);
    },
    link: () => link,
    ready,
    isQuiet,
    onSettled: settle,
    onWarning: context.onWarning,
  });

  // --- the link

  function onApplied(applied: Applied): void {
    for (const entry of applied.events) {
      const { event } = entry;
      if ("turn" in event && event.type !== "turn.ended") turns.get(event.turn)?.event(entry);
    }
    door.applied(applied.events);
    context.observer.applied(applied.events);
    for (const { turn, settlement } of applied.settled) settle(turn, settlement);
    for (const turn of applied.conflicts) {
      context.onWarning("native id of another member", turn);
      abort(turn).catch((error: unknown) =>
        context.onWarning("abort failed", asHoldfastError(error).message),
      );
    }
  }

  async function abort(turn: string): Promise<void> {
    if (link === null) throw new HoldfastError("LINK_CLOSED");
    await link.request("turn.abort", { turn });
  }

  function settle(turn: string, settlement: Settlement): void {
    watch.turnEnded();
    turns.get(turn)?.settle(settlement);
    turns.delete(turn);
    context.observer.settled(turn);
  }

  function wake(): void {
    for (const run of wakeUp.splice(0)) run();
  }

  function onUp(): void {
    // Also when it takes the place of another link: who is at its end has not been challenged yet.
    isAttested = false;
    links += 1;
    refusal = null;
    door.recheck();
    wake();
    watch.recover();
    context.observer.linkUp();
  }

  function onDown(cause: HoldfastError | null): void {
    isAttested = false;
    if (cause?.code === "ATTESTATION_FAILED" || cause?.code === "FENCED") refusal = cause;
    wake();
    if (!isClosed) watch.linkDown();
  }

  /** Listens for a bridge that may still run, so that its events come in. No effect when it does already. */
  async function attach(): Promise<void> {
    if (isClosed) throw new HoldfastError("STOPPED");
    // Right before anything of the sandbox is touched (law 12): a socket of ours would be in its owner's way.
    store.checkOwned();
    if (link !== null) return;
    attaching ??= listen().finally(() => {
      attaching = null;
    });
    await attaching;
  }

  async function listen(): Promise<void> {
    await makeSandboxDirectory(paths);
    const token = await sandboxToken(paths);
    await door.open(token);
    try {
      link = await openSandboxLink({
        sandboxId: id,
        paths,
        token,
        store,
        clock,
        takeOver,
        unsent,
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
    } catch (error) {
      await door.close();
      throw error;
    }
  }

  async function detach(): Promise<void> {
    // One that is being opened is waited for: nothing would close it afterwards.
    await Promise.allSettled([attaching]);
    watch.stop();
    const open = link;
    link = null;
    isAttested = false;
    await open?.close();
    await door.close();
  }

  /** Until the link goes up or down, the sandbox is to end, this controller closes, or the limit is over. */
  function change(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(limitMs, resolve);
      wakeUp.push(() => {
        cancel();
        resolve();
      });
    });
  }

  async function connected(limitMs: number): Promise<SandboxLink> {
    const deadline = clock.monotonicMs() + limitMs;
    for (;;) {
      if (isQuiet()) throw new HoldfastError("STOPPED");
      if (link?.isUp()) return link;
      if (refusal !== null) throw refusal;
      const leftMs = deadline - clock.monotonicMs();
      if (leftMs <= 0)
        throw new HoldfastError("BRIDGE_GONE", `the bridge did not connect within ${limitMs} ms`);
      await change(Math.min(leftMs, STILL_RUNS_MS));
      if (!isQuiet() && !link?.isUp() && refusal === null) await refuseEnded();
    }
  }

  const sight = createSandboxSight({ id, store, driver, row, specOf, attach, link: () => link, connected });

  /** A bridge that ended at its start never connects: its last words are read at once. */
  async function refuseEnded(): Promise<void> {
    const found = row();
    if (found.container === null) return;
    const state = await driver.state(specOf(found), found.container.containerId);
    if (state === "stopped") throw new HoldfastError("BRIDGE_GONE", "the bridge ended before it connected");
  }

  // --- up and down

  function ready(): Promise<Ready> {
    if (isClosed) return Promise.reject(closedBy ?? new HoldfastError("STOPPED"));
    readying ??= bringUp().finally(() => {
      readying = null;
    });
    return readying;
  }

  async function bringUp(): Promise<Ready> {
    await ending;
    // Before anything is made for it, and again after what was awaited.
    row();
    const pinned = await driver.pinned();
    await attach();
    const found = row();
    if (found.wanted !== "running") store.setWanted(id, "running");
    const made = await makeReady({
      store,
      driver,
      paths,
      spec: specOf(found),
      pinned,
      container: found.container,
      // One of an earlier build is judged anew once its turns have ended.
      attested: () =>
        isAttested && link?.isUp() && (outdated === null || isBusy()) ? { link, outdated } : null,
      isBusy,
      connected,
      onStart() {
        if (isQuiet()) throw new HoldfastError("STOPPED");
        refusal = null;
      },
    });
    if (!isAttested) {
      const mine = links;
      await catchUp({ sandboxId: id, link: made.link, store, clock, onWarning: context.onWarning });
      if (links !== mine || !made.link.isUp()) throw new HoldfastError("LINK_CLOSED");
    }
    isAttested = true;
    outdated = made.outdated;
    return made;
  }

  /** A stop or a removal: ends a start that is under way, and comes before the next one. */
  function end(step: () => Promise<void>): Promise<void> {
    const run = Promise.allSettled([readying, ending]).then(step);
    const mine = run
      // The caller is told; the turns that it left open are looked after again.
      .catch(() => watch.linkDown())
      .finally(() => {
        if (ending === mine) ending = null;
      });
    ending = mine;
    wake();
    return run;
  }

  return {
    id,
    turns,
    ready,
    ...sight,
    recover: watch.recover,
    attach,
    async takeUp() {
      const fault = await attach().then(
        () => null,
        (error: unknown) => asHoldfastError(error, "STORE_ERROR"),
      );
      watch.follow(fault === null ? ready() : Promise.reject(fault));
      return fault;
    },
    holdUnsent(turn) {
      unsent.add(turn);
      return () => unsent.delete(turn);
    },
    async stop({ abort: mayAbort }) {
      row();
      const open = store.openTurnsOf(id);
      if (open.length > 0 && !mayAbort) {
        throw new HoldfastError("MEMBER_BUSY", `${open.length} turn(s) run in the sandbox; abort them first`);
      }
      watch.endUnsent("sandbox_stopped", "the sandbox was stopped before the turn was sent");
      return end(async () => {
        const found = row();
        store.setWanted(id, "stopped");
        if (found.container === null) return detach();
        // Attached, so that the settlements of what the bridge aborts come in before it ends.
        await attach();
        const code = await driver.stop(specOf(found), found.container.containerId, STOP_GRACE_MS);
        if (code !== null) store.audit("sandbox.stopped", id, `exit code ${code}`);
        if (code === KILLED) context.onWarning("the stop was not clean", "its bridge had to be killed");
        if (link?.isUp()) await change(LAST_WORDS_MS);
        watch.endSent("sandbox_stopped", "the sandbox was stopped; nobody saw the turn's end");
        store.setResidents(id, []);
        await detach();
      });
    },
    async remove() {
      if (store.sandbox(id) === null) throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${id}`);
      store.setWanted(id, "removed");
      watch.endUnsent("sandbox_removed", "the sandbox was removed before the turn was sent");
      return end(async () => {
        // Again: a start that was under way wanted it running.
        store.setWanted(id, "removed");
        const found = store.sandbox(id);
        if (found?.container != null) await driver.remove(specOf(found), found.container.containerId);
        watch.endSent("sandbox_removed", "the sandbox was removed; nobody saw the turn's end");
        store.setResidents(id, []);
        await detach();
        await removeSandboxDirectory(paths);
      });
    },
    async close(why = new HoldfastError("STOPPED", "this controller closed; the turn goes on")) {
      isClosed = true;
      closedBy ??= why;
      wake();
      await detach();
      await Promise.allSettled([readying, ending]);
      for (const turn of turns.values()) turn.fail(why);
      turns.clear();
    },
  };
}
