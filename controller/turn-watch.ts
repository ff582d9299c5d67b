/**
 * Sees to it that every open turn of a sandbox gets an end: asks the bridge when its link is back, and looks for the
 * sandbox itself when the link stays away. What becomes of a turn is decided in `recovery.ts`.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError } from "../protocol/errors.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { hostSettlement } from "./host-settlement.ts";
import { decideAfterDeath, decideRecovery } from "./recovery.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import type { SandboxDriver, SandboxSpec } from "./sandboxes/sandbox.ts";
import type { SandboxRow, TurnRow } from "./store/records.ts";
import type { Store } from "./store/store.ts";

/** A broken link may come back by itself for so long before the sandbox is looked at. */
const LINK_GRACE_MS = 500;
const WATCH_MS = 1000;

export interface TurnWatchOptions {
  sandboxId: string;
  store: Store;
  driver: SandboxDriver;
  clock: Clock;
  /** Turns of which nothing has been sent yet; they are their sender's to end. */
  unsent: ReadonlySet<string>;
  specOf(row: SandboxRow): SandboxSpec;
  link(): SandboxLink | null;
  /** Starts the sandbox again. */
  ready(): Promise<unknown>;
  /** Nothing is looked for while the sandbox is being stopped, and when this controller closes. */
  isQuiet(): boolean;
  onSettled(turn: string, settlement: Settlement): void;
  onWarning(what: string, detail: string): void;
}

export interface TurnWatch {
  /** Asks the bridge about every open turn that was sent. */
  recover(): void;
  /** The link went down. */
  linkDown(): void;
  /** Follows an attempt to bring the sandbox back; when it fails, looks for what became of the turns. */
  follow(attempt: Promise<unknown>): void;
  /** A turn has ended: deaths are counted anew. */
  turnEnded(): void;
  /** Ends the turns that were sent, as unknown. */
  endSent(what: string, reason: string): void;
  /** Ends those that were not, and then never will be. */
  endUnsent(what: string, reason: string): void;
  stop(): void;
}

export function createTurnWatch(options: TurnWatchOptions): TurnWatch {
  const { sandboxId, store, driver, clock, unsent } = options;
  let revivals = 0;
  let cancelLook: () => void = () => undefined;
  let cancelRecovery: () => void = () => undefined;

  const sentTurns = (): TurnRow[] => store.openTurnsOf(sandboxId).filter(({ id }) => !unsent.has(id));

  function endOpen(turn: string, outcome: "not_sent" | "unknown", what: string, reason: string): void {
    const code = outcome === "not_sent" ? "BRIDGE_GONE" : "DELIVERY_UNKNOWN";
    const settlement = hostSettlement({ outcome, code, reason, what, at: clock.nowAt() });
    if (store.end(turn, settlement)) options.onSettled(turn, settlement);
  }

  function endSent(what: string, reason: string): void {
    for (const { id } of sentTurns()) endOpen(id, "unknown", what, reason);
  }

  function recover(): void {
    cancelRecovery();
    recoverTurns().catch((error: unknown) => {
      const fault = asHoldfastError(error);
      // A link that closed is followed by another one, which asks anew.
      if (options.isQuiet() || fault.code === "LINK_CLOSED") return;
      options.onWarning("recovery", fault.message);
      cancelRecovery = clock.after(WATCH_MS, recover);
    });
  }

  async function recoverTurns(): Promise<void> {
    const asked = await Promise.allSettled(sentTurns().map((turn) => recoverTurn(turn)));
    const failed = asked.find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  async function recoverTurn({ id: turn, member, number }: TurnRow): Promise<void> {
    const answer = await options.link()?.request("turn.recover", { turn, member, number });
    if (answer === undefined) return;
    const decision = decideRecovery(answer.state);
    if (decision.kind === "end") endOpen(turn, decision.outcome, decision.what, decision.reason);
  }

  function lookIn(ms: number): void {
    cancelLook();
    cancelLook = clock.after(ms, () => {
      if (!isNeedless()) follow(look());
    });
  }

  const isNeedless = () => options.isQuiet() || options.link()?.isUp() === true;

  function follow(attempt: Promise<unknown>): void {
    attempt.catch(onFault).catch((error: unknown) => {
      options.onWarning("the turns can't be ended", asHoldfastError(error).message);
      lookIn(WATCH_MS);
    });
  }

  /** What passes is tried again; what does not, leaves the turns unknown. */
  function onFault(error: unknown): void {
    if (options.isQuiet()) return;
    const fault = asHoldfastError(error);
    options.onWarning("the sandbox can't be followed", fault.message);
    const isFinal = fault.code === "ATTESTATION_FAILED" || fault.code === "CONTEXT_LOST";
    if (isFinal) endSent("sandbox_unusable", fault.message);
    else lookIn(WATCH_MS);
  }

  async function look(): Promise<void> {
    const row = store.sandbox(sandboxId);
    const open = sentTurns();
    if (open.length === 0 || row === null) return;
    if (row.container === null) {
      for (const { id } of open)
        endOpen(id, "not_sent", "never_started", "no bridge was ever started for it");
      return;
    }
    const state = await driver.state(options.specOf(row), row.container.containerId);
    if (isNeedless()) return;
    const decision = row.wanted === "running" ? decideAfterDeath(state, revivals) : "unknown";
    if (decision === "wait") return lookIn(WATCH_MS);
    if (decision === "unknown")
      return endSent("sandbox_gone", `the sandbox is ${state}; nobody saw the turn's end`);
    revivals += 1;
    options.onWarning(
      "the sandbox ended during a turn",
      "it is started again, so that its journal can say what became of it",
    );
    await options.ready();
  }

  return {
    recover,
    linkDown: () => lookIn(LINK_GRACE_MS),
    follow,
    turnEnded() {
      revivals = 0;
    },
    endSent,
    endUnsent(what, reason) {
      for (const turn of unsent) endOpen(turn, "not_sent", what, reason);
    },
    stop() {
      cancelLook();
      cancelRecovery();
    },
  };
}
