/**
 * Lives within the host: lets CLI processes start a few at a time, makes room for them, and retires those that nobody
 * used. Who may start and who goes is decided in `residency-decision.ts`; this file waits, asks and remembers.
 *
 *   enter ─▶ resident already? go on ─▶ else wait in line ─▶ room? go on, and count as starting until ready or ended
 *                                                        └▶ no: retire the longest unused ─▶ decide again
 */
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { NumberedEvent } from "../protocol/events.ts";
import { decideIdle, decideStart, type ResidencyLimits, type ResidentFact } from "./residency-decision.ts";
import type { ResidentRow, SeenResident } from "./store/residents.ts";
import type { Store } from "./store/store.ts";

/** The memory default is the host's to give: half of its own. */
export const RESIDENCY_DEFAULTS: Omit<ResidencyLimits, "memoryBytes"> = {
  idleMs: 30 * 60_000,
  residents: 32,
  startBytes: 350e6,
  starts: 2,
  waiting: 256,
  waitMs: 10 * 60_000,
};

/** Resident processes are looked at this often, and twice in the time that they may be idle: their bridge is asked what runs and how much memory it takes. */
const LOOK_MS = 15_000;
/** One that could not be retired is not tried again for so long. */
const RETRY_MS = 30_000;

export interface ResidencyOptions {
  store: Store;
  clock: Clock;
  limits: ResidencyLimits;
  /** Asks the bridge for the end of a member's process. False when it did not come about. */
  retire(sandbox: string, member: string): Promise<boolean>;
  /** What is resident in a sandbox, [] when it does not run, null when nobody can say now. */
  look(sandbox: string): Promise<SeenResident[] | null>;
  onWarning(what: string, detail: string): void;
}

export interface Residency {
  /**
   * Resolves when the turn may be sent, with how long it waited for that. Rejects with OVERLOADED when too many wait or
   * it waited too long, with STOPPED when the turn has left, and with the cause given to `cancel`.
   */
  enter(turn: string, member: string): Promise<number>;
  /** Ends a turn's waiting. False when it does not wait. */
  cancel(turn: string, cause: HoldfastError): boolean;
  /** The turn has ended, or will not be sent. */
  left(turn: string): void;
  /** Events that took effect in the store. */
  applied(entries: readonly NumberedEvent[]): void;
  /** A bridge is back: it is asked, when something of its sandbox was resident. */
  linkUp(sandbox: string): void;
  close(): void;
}

interface Waiting {
  turn: string;
  member: string;
  sinceMs: number;
  cancelLimit(): void;
  resolve(queuedMs: number): void;
  reject(error: HoldfastError): void;
}

export function createResidency(options: ResidencyOptions): Residency {
  const { store, clock, limits } = options;
  const line: Waiting[] = [];
  /** Turns whose process was let start and is not ready yet -> member. */
  const starts = new Map<string, string>();
  /** When a member's process was used last, on the monotonic clock of this life. */
  const usedMs = new Map<string, number>();
  const notRetired = new Map<string, number>();
  let isPumping = false;
  let isPumpDue = false;
  let cancelLook: (() => void) | null = null;
  let isClosed = false;

  function facts(): ResidentFact[] {
    const rows = store.residents();
    const nowMs = clock.monotonicMs();
    const busy = new Map<string, boolean>();
    for (const sandbox of new Set(rows.map((row) => row.sandbox)))
      for (const turn of store.openTurnsOf(sandbox)) busy.set(turn.member, true);
    return rows.map((row) => {
      if (!usedMs.has(row.member)) usedMs.set(row.member, nowMs);
      const isHeld = (notRetired.get(row.member) ?? Number.NEGATIVE_INFINITY) > nowMs;
      return {
        member: row.member,
        // One that can't be retired now holds its place like one in use.
        isBusy: busy.get(row.member) === true || isHeld,
        idleMs: nowMs - (usedMs.get(row.member) ?? nowMs),
        order: row.used,
        rssBytes: row.rss_bytes,
      };
    });
  }

  function isResident(member: string): boolean {
    return store.residents().some((row) => row.member === member);
  }

  function pump(): void {
    isPumpDue = true;
    if (isPumping) return;
    isPumping = true;
    serve()
      .catch((error: unknown) => options.onWarning("the start queue", asHoldfastError(error).message))
      .finally(() => {
        isPumping = false;
        if (isPumpDue && !isClosed) pump();
      });
  }

  async function serve(): Promise<void> {
    while (isPumpDue && !isClosed) {
      isPumpDue = false;
      const first = line[0];
      if (first === undefined) return;
      const decision = isResident(first.member)
        ? { kind: "start" as const }
        : decideStart(facts(), starts.size, limits);
      if (decision.kind === "wait") return;
      // Also after a retirement that failed: what could not be retired is no candidate any more.
      isPumpDue = true;
      if (decision.kind === "retire")
        await Promise.all(decision.members.map((member) => retire(member, decision.reason)));
      else admit(first);
    }
  }

  function cancel(turn: string, cause: HoldfastError): boolean {
    const at = line.findIndex((waiting) => waiting.turn === turn);
    const [waiting] = at === -1 ? [] : line.splice(at, 1);
    waiting?.cancelLimit();
    waiting?.reject(cause);
    // Who stood behind it may be let in.
    if (waiting !== undefined && !isClosed) pump();
    return waiting !== undefined;
  }

  function admit(first: Waiting): void {
    line.shift();
    first.cancelLimit();
    starts.set(first.turn, first.member);
    first.resolve(clock.monotonicMs() - first.sinceMs);
  }

  async function retire(member: string, why: string): Promise<void> {
    const row = store.residents().find((each) => each.member === member);
    if (row === undefined) return;
    store.audit("member.retire", member, why);
    let isGone = false;
    try {
      isGone = await options.retire(row.sandbox, member);
    } catch (error) {
      options.onWarning(`member ${member} can't be retired`, asHoldfastError(error).message);
    }
    if (isGone) forget(row.sandbox, member);
    else notRetired.set(member, clock.monotonicMs() + RETRY_MS);
  }

  /** Its end is in the bridge's journal too, and comes as an event; here it counts from its answer on. */
  function forget(sandbox: string, member: string): void {
    const left = store.residents().filter((row) => row.sandbox === sandbox && row.member !== member);
    store.setResidents(
      sandbox,
      left.map((row) => ({ member: row.member, processGeneration: row.generation, rssBytes: row.rss_bytes })),
    );
  }

  /** Looks at a sandbox's processes; what its bridge says is what is there. */
  async function look(sandbox: string): Promise<void> {
    const seen = await options.look(sandbox);
    if (seen === null || isClosed) return;
    const known = store.residents().filter((row) => row.sandbox === sandbox);
    const isNews = seen.length !== known.length || seen.some((each) => !isLike(each, known));
    if (isNews) store.setResidents(sandbox, seen);
  }

  function lookLater(): void {
    if (isClosed || cancelLook !== null || store.residents().length === 0) return;
    cancelLook = clock.after(Math.min(LOOK_MS, Math.max(1, limits.idleMs / 2)), () => {
      lookAround()
        .catch((error: unknown) => options.onWarning("resident processes", asHoldfastError(error).message))
        .finally(() => {
          cancelLook = null;
          if (isClosed) return;
          pump();
          lookLater();
        });
    });
  }

  async function lookAround(): Promise<void> {
    await Promise.all([...new Set(store.residents().map(({ sandbox }) => sandbox))].map(look));
    if (isClosed) return;
    await Promise.all(decideIdle(facts(), limits).map((member) => retire(member, "idle")));
  }

  lookLater();

  return {
    async enter(turn, member) {
      if (isClosed) throw new HoldfastError("STOPPED");
      if (isResident(member)) return 0;
      if (line.length >= limits.waiting)
        throw new HoldfastError("OVERLOADED", `${line.length} turns wait for a start already`);
      return new Promise<number>((resolve, reject) => {
        const cancelLimit = clock.after(limits.waitMs, () => {
          const why = `no process could be started within ${limits.waitMs} ms`;
          cancel(turn, new HoldfastError("OVERLOADED", why));
        });
        line.push({ turn, member, sinceMs: clock.monotonicMs(), cancelLimit, resolve, reject });
        pump();
      });
    },
    cancel,
    left(turn) {
      cancel(turn, new HoldfastError("STOPPED", "the turn has ended"));
      starts.delete(turn);
      if (!isClosed) pump();
    },
    applied(entries) {
      for (const { event } of entries) {
        if (event.type !== "member.process" && event.type !== "turn.ended") continue;
        const { member } = event;
        usedMs.set(member, clock.monotonicMs());
        notRetired.delete(member);
        if (event.type === "turn.ended" || event.state === "started") continue;
        // Ready, or not to be any more: its start is over.
        for (const [turn, starting] of starts) if (starting === member) starts.delete(turn);
        if (event.state !== "ready") usedMs.delete(member);
      }
      pump();
      lookLater();
    },
    linkUp(sandbox) {
      if (!store.residents().some((row) => row.sandbox === sandbox)) return;
      look(sandbox)
        .then(pump)
        .catch((error: unknown) => options.onWarning("resident processes", asHoldfastError(error).message));
    },
    close() {
      isClosed = true;
      cancelLook?.();
      for (const { turn } of [...line]) cancel(turn, new HoldfastError("STOPPED"));
    },
  };
}

/** The same process, and about the same memory: not worth a write. */
function isLike(seen: SeenResident, known: readonly ResidentRow[]): boolean {
  const row = known.find(({ member }) => member === seen.member);
  if (row?.generation !== seen.processGeneration) return false;
  if (row.rss_bytes === null || seen.rssBytes === null) return row.rss_bytes === seen.rssBytes;
  return Math.abs(row.rss_bytes - seen.rssBytes) < row.rss_bytes / 10;
}
