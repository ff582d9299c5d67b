/**
 * Sees to it that every open turn of a sandbox gets an end: asks the bridge when its link is back, and looks for the
 * sandbox itself when the link stays away. What becomes of a turn is decided in `protocol/recovery.ts`.
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError } from "../protocol/errors.ts";
import type { Launch } from "../protocol/launch.ts";
import {
  decideRecovery,
  type Place,
  type RecoveryDecision,
  type RecoveryFacts,
} from "../protocol/recovery.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { hostSettlement } from "./host-settlement.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import type { SandboxDriver, SandboxSpec } from "./sandboxes/sandbox.ts";
import type { SandboxRow, TurnRow } from "./store/records.ts";
import type { Store } from "./store/store.ts";

/** A broken link may come back by itself for so long before the sandbox is looked at. */
const LINK_GRACE_MS = 500;
const WATCH_MS = 1000;
/** A bridge may be away for so long, whatever the reason, before the turns that it has are given up. */
export const AWAY_MS = 300_000;

export interface TurnWatchOptions {
  sandboxId: string;
  store: Store;
  driver: SandboxDriver;
  clock: Clock;
  /** Turns of which nothing has been sent yet; they are their sender's to end. */
  unsent: ReadonlySet<string>;
  specOf(row: SandboxRow): SandboxSpec;
  /** How the member's CLI is started now; null when that can't be told. */
  launchOf(member: string): Promise<Launch | null>;
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
  /** Since when the link has been away, monotonic; null while it is up or nobody waits for it. */
  let awaySinceMs: number | null = null;
  let cancelLook: () => void = () => undefined;
  let cancelRecovery: () => void = () => undefined;

  const sentTurns = (): TurnRow[] => store.openTurnsOf(sandboxId).filter(({ id }) => !unsent.has(id));

  function end(turn: string, decision: Extract<RecoveryDecision, { kind: "end" }>): void {
    const { outcome, what, reason } = decision;
    const code = outcome === "not_sent" ? "BRIDGE_GONE" : "DELIVERY_UNKNOWN";
    const settlement = hostSettlement({ outcome, code, reason, what, at: clock.nowAt() });
    if (store.end(turn, settlement)) options.onSettled(turn, settlement);
  }

  function endSent(what: string, reason: string): void {
    for (const { id } of sentTurns()) end(id, { kind: "end", outcome: "unknown", what, reason });
  }

  function recover(): void {
    cancelRecovery();
    if (sentTurns().length === 0) awaySinceMs = null;
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

  async function recoverTurn({ id: turn, member, number, state }: TurnRow): Promise<void> {
    const launch = await options.launchOf(member);
    const answer = await options.link()?.request("turn.recover", { turn, member, number, launch });
    if (answer === undefined) return;
    // A link that comes up and answers nothing is none.
    awaySinceMs = null;
    const decision = decide({ journal: answer.state, place: "running", reach: reachOf(state) });
    if (decision.kind === "end") end(turn, decision);
  }

  function decide(seen: Pick<RecoveryFacts, "journal" | "place" | "reach">): RecoveryDecision {
    const awayMs = awaySinceMs === null ? 0 : clock.monotonicMs() - awaySinceMs;
    return decideRecovery({
      ...seen,
      isWanted: store.sandbox(sandboxId)?.wanted === "running",
      revivals,
      isOverdue: awayMs > AWAY_MS,
      history: null,
    });
  }

  /** By what is seen of the sandbox, while its bridge can't be asked; alike for all turns that were sent. */
  function decideAway(place: Place): RecoveryDecision {
    return decide({ journal: null, place, reach: "handed_over" });
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

  /** What passes is tried again, until it is overdue; what does not, leaves the turns unknown. */
  function onFault(error: unknown): void {
    if (options.isQuiet()) return;
    const fault = asHoldfastError(error);
    options.onWarning("the sandbox can't be followed", fault.message);
    const isFinal = fault.code === "ATTESTATION_FAILED" || fault.code === "CONTEXT_LOST";
    const decision = decideAway(isFinal ? "unusable" : "unseen");
    if (decision.kind === "end") giveUp(decision, isFinal ? fault.message : decision.reason);
    else lookIn(WATCH_MS);
  }

  function giveUp(decision: Extract<RecoveryDecision, { kind: "end" }>, reason: string): void {
    const open = sentTurns();
    // Said where the sandbox is looked at, until it is ready again.
    if (decision.what === "bridge_silent" && open.length > 0) store.setUnready(sandboxId, [decision.reason]);
    for (const { id } of open) end(id, { ...decision, reason });
  }

  async function look(): Promise<void> {
    const row = store.sandbox(sandboxId);
    if (sentTurns().length === 0 || row === null) return;
    awaySinceMs ??= clock.monotonicMs();
    const place =
      row.container === null
        ? "never_made"
        : await driver.state(options.specOf(row), row.container.containerId);
    if (isNeedless()) return;
    const decision = decideAway(place);
    switch (decision.kind) {
      case "end":
        return giveUp(decision, decision.reason);
      case "revive":
        revivals += 1;
        options.onWarning("the sandbox ended during a turn", decision.reason);
        await options.ready();
        return;
      case "wait":
      case "ask_history":
        return lookIn(WATCH_MS);
      default: {
        const never: never = decision;
        throw new TypeError(`decision ${String(never)} is not handled`);
      }
    }
  }

  return {
    recover,
    linkDown() {
      awaySinceMs ??= clock.monotonicMs();
      lookIn(LINK_GRACE_MS);
    },
    follow(attempt) {
      awaySinceMs ??= clock.monotonicMs();
      follow(attempt);
    },
    turnEnded() {
      revivals = 0;
    },
    endSent,
    endUnsent(what, reason) {
      for (const turn of unsent) end(turn, { kind: "end", outcome: "not_sent", what, reason });
    },
    stop() {
      cancelLook();
      cancelRecovery();
    },
  };
}

function reachOf(state: TurnRow["state"]): RecoveryFacts["reach"] {
  return state === "delivered" ? "delivered" : "handed_over";
}
