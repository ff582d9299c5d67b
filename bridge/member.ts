/** One member: its slot, its resident process, and the preparation of its turns. */

import type { BridgeConfig } from "../protocol/bridge-config.ts";
import type { Clock } from "../protocol/clock.ts";
import { type ContextFacts, decideContext, type ResumeResult } from "../protocol/context-status.ts";
import { asHoldfastError, clip, HoldfastError } from "../protocol/errors.ts";
import type { ControlEvent } from "../protocol/events.ts";
import type { ForkedSession } from "../protocol/fork.ts";
import type { Launch } from "../protocol/launch.ts";
import type { LaunchParts } from "../protocol/launch-parts.ts";
import type { CliName, Locator } from "../protocol/locator.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { reapSlot, residentBytes } from "./census.ts";
import type { Driver, LaunchRequest, Resident, ResidentListener } from "./drivers/driver.ts";
import { PLACEHOLDER_KEY } from "./drivers/environment.ts";
import type { Log } from "./log.ts";
import { fittingId } from "./observed-event.ts";
import { processesLeft } from "./process.ts";
import { openSlot, type Slot } from "./slots.ts";
import type { Preparation, Submission, TurnRunner } from "./turn-runner.ts";

export interface MemberOptions {
  id: string;
  driver: Driver;
  command: readonly string[];
  cliVersion: string;
  config: BridgeConfig;
  modelUrl: string;
  /** What a process of the member shows the model. */
  modelToken(processGeneration: number): string;
  clock: Clock;
  log: Log;
  /** Journals an event of this member. */
  report(event: ControlEvent): void;
}

export interface Member {
  readonly id: string;
  readonly cli: CliName;
  active: TurnRunner | null;
  resident(): Resident | null;
  /** What of its resident process decides the next turn's context; null when none is there. */
  standing(): ContextFacts["resident"];
  /** Resident memory of its slot's processes, bytes; null before its slot was opened. */
  residentBytes(): Promise<number | null>;
  prepare(submission: Submission, signal: AbortSignal): Promise<Preparation>;
  /** Asks the CLI's history, in a process of its own, whether it has stored this message. */
  proveDelivery(
    launch: Launch,
    nativeId: string,
    nativeMessage: string,
  ): Promise<"absent" | "present" | "unclear">;
  /**
   * Keeps the CLI at rest while `work` runs: a turn that comes meanwhile is prepared afterwards. Throws MEMBER_BUSY, and
   * what `work` throws.
   */
  atRest<T>(work: (slot: Slot) => Promise<T>): Promise<T>;
  /** Lets the CLI fork the conversation that was copied into this slot; null when it does so with a turn alone. */
  fork(launch: Launch, locator: Locator, signal: AbortSignal): Promise<ForkedSession | null>;
  /** The settlement is journaled: frees the member, and retires the process if it may not stay. */
  turnEnded(settlement: Settlement): void;
  /** Ends the resident process. True when there was one. Throws PROCESS_LEFT. */
  retire(why: string): Promise<boolean>;
  /** Ends it and whatever else is in the slot. Throws PROCESS_LEFT. */
  empty(why: string): Promise<void>;
}

interface Residence {
  resident: Resident;
  launchDigest: string;
  launchParts: LaunchParts;
  tookLastTurn: boolean;
}

/** A process that looks or forks and takes no prompt. */
const ASIDE = { forks: false, isForTurn: false };

export function createMember(options: MemberOptions): Member {
  const { id, driver, config, clock, log, report } = options;
  const { cli } = driver.manifest;
  let slot: Slot | null = null;
  let residence: Residence | null = null;
  let generation = 0;
  let subscriptions = 0;
  let retiring: Promise<boolean> | null = null;
  let starting: Promise<unknown> = Promise.resolve();
  /** Somebody reads the slot; never rejects. */
  let resting: Promise<unknown> = Promise.resolve();

  async function ownSlot(): Promise<Slot> {
    slot ??= await openSlot(config, id);
    return slot;
  }

  async function launchRequest(
    launch: Launch,
    signal: AbortSignal,
    use: { forks: boolean; isForTurn: boolean },
  ): Promise<LaunchRequest> {
    const place = await ownSlot();
    generation += 1;
    return {
      slot: place,
      forks: use.forks,
      launch,
      command: options.command,
      cliVersion: options.cliVersion,
      processGeneration: generation,
      modelUrl: options.modelUrl,
      modelKey: use.isForTurn ? options.modelToken(generation) : PLACEHOLDER_KEY,
      limits: config.limits,
      clock,
      log,
      listener: listenTo(generation),
      nextSubscription: () => ++subscriptions,
      signal,
    };
  }

  /** Reports of a process that has been replaced reach nobody. */
  function listenTo(processGeneration: number): ResidentListener {
    const isCurrent = () => residence === null || residence.resident.processGeneration === processGeneration;
    return {
      onObservation(observation) {
        if (isCurrent()) member.active?.observe(observation);
      },
      onSubscription: (subscription, state, detail) =>
        report({ type: "member.subscription", member: id, subscription, state, detail: clip(detail) }),
      onUnrequested: (session, state, detail) =>
        report({
          type: "member.unrequested",
          member: id,
          session: fittingId(session),
          state,
          detail: clip(detail),
        }),
      onExit(exit) {
        const detail = `code ${exit.code}, signal ${exit.signal}`;
        report({ type: "member.process", member: id, processGeneration, state: "exited", detail });
        if (residence?.resident.processGeneration !== processGeneration) return;
        const { resident } = residence;
        residence = null;
        member.active?.processExited(exit);
        // Its children may have outlived it.
        retiring = endProcess(resident).finally(() => {
          retiring = null;
        });
        retiring.catch((error: unknown) => log.warn("slot not empty", { member: id, error: String(error) }));
      },
    };
  }

  /** True when there was a process. From this call on no turn meets it any more. */
  async function endResidence(why: string): Promise<boolean> {
    if (retiring !== null) return retiring;
    if (residence === null) return false;
    const { resident } = residence;
    residence = null;
    const { processGeneration } = resident;
    report({ type: "member.process", member: id, processGeneration, state: "retired", detail: why });
    retiring = endProcess(resident).finally(() => {
      retiring = null;
    });
    return retiring;
  }

  async function endProcess(resident: Resident): Promise<boolean> {
    const left = await resident.stop();
    if (left.length > 0) throw processesLeft(left);
    return true;
  }

  function standing(): ContextFacts["resident"] {
    // It may have come to this outside of any turn: then no turn's end has asked (design, section 4, Retirement).
    const isThere =
      residence !== null && !residence.resident.hasExited() && residence.resident.mustRetire() === null;
    if (!isThere || residence === null) return null;
    const { tookLastTurn, launchDigest, launchParts, resident } = residence;
    return { tookLastTurn, launchDigest, launchParts, nativeId: resident.nativeId };
  }

  function factsOf(submission: Submission): ContextFacts {
    return {
      settledTurns: submission.settledTurns,
      locator: submission.locator,
      container: submission.container,
      resident: standing(),
      mustProve: submission.mustProve,
      launchDigest: submission.launch.digest,
      launchParts: submission.launchParts,
      resume: null,
    };
  }

  /** One start of a process at a time: one that was cancelled empties the slot when it ends, of another's process too. */
  function startAlone<T>(start: () => Promise<T>): Promise<T> {
    const started = starting.then(start);
    starting = started.catch(() => undefined /* its caller is told */);
    return started;
  }

  /** A process for the turn: resumed with the locator, or new without one. */
  async function launch(submission: Submission, signal: AbortSignal): Promise<ResumeResult | null> {
    await endResidence("replaced");
    const request = await launchRequest(submission.launch, signal, {
      forks: submission.forks,
      isForTurn: true,
    });
    const { processGeneration } = request;
    report({ type: "member.process", member: id, processGeneration, state: "started", detail: "" });
    const locator = submission.settledTurns === 0 ? null : submission.locator;
    const result = await driver.launch(request, locator);
    if (result.kind === "not_resumed") return result.resume;
    if (signal.aborted) {
      await endProcess(result.resident);
      throw new HoldfastError("STOPPED", "the turn ended while its process started");
    }
    const { launchParts, launch: given } = submission;
    residence = { resident: result.resident, launchDigest: given.digest, launchParts, tookLastTurn: false };
    report({ type: "member.process", member: id, processGeneration, state: "ready", detail: "" });
    return result.kind === "resumed" ? result.resume : null;
  }

  async function prepare(submission: Submission, signal: AbortSignal): Promise<Preparation> {
    // A retirement that failed has said so; the launch reaps the slot itself before it starts anything.
    await Promise.allSettled([resting, retiring]);
    const facts = factsOf(submission);
    let decision = decideContext(facts);
    if (decision.kind === "resume" || (decision.kind === "decided" && decision.status === "NEW")) {
      // The same facts, so that the reason stays why the process had to be replaced.
      const resume = await startAlone(() => launch(submission, signal));
      decision = decideContext({ ...facts, resume });
    }
    if (decision.kind !== "decided") {
      const error = new HoldfastError("RESUME_FAILED", decision.reason);
      return { kind: "refused", status: null, reason: decision.reason, error };
    }
    const { status, reason } = decision;
    if (status === "LOST") {
      return { kind: "refused", status, reason, error: new HoldfastError("CONTEXT_LOST", reason) };
    }
    if (residence === null)
      throw new HoldfastError("CLI_EXITED", "the CLI ended while the turn was prepared");
    const { resident } = residence;
    if (status === "LIVE" && submission.locatorIsPending) await verifyPending(resident);
    return { kind: "ready", resident, status, reason };
  }

  /** Law 7: an id that could not be verified at its settlement is verified before the next turn. */
  async function verifyPending(resident: Resident): Promise<void> {
    const result = await resident.verify();
    if (result.kind === "verified") return;
    const detail = result.kind === "changed" ? `the CLI reports ${result.observed}` : result.detail;
    throw new HoldfastError(result.kind === "changed" ? "IDENTITY_CHANGED" : "IDENTITY_UNVERIFIED", detail);
  }

  const member: Member = {
    id,
    cli,
    active: null,
    resident: () => residence?.resident ?? null,
    standing,
    residentBytes: async () => (slot === null ? null : residentBytes(slot.mark)),
    prepare,
    async proveDelivery(given, nativeId, nativeMessage) {
      await retiring;
      return startAlone(async () => {
        const request = await launchRequest(given, new AbortController().signal, ASIDE);
        return driver.proveDelivery(request, nativeId, nativeMessage);
      });
    },
    async atRest(work) {
      if (member.active !== null) throw new HoldfastError("MEMBER_BUSY");
      const before = Promise.allSettled([resting, retiring, starting]);
      const working = before.then(async () => work(await ownSlot()));
      resting = working.catch(() => undefined /* its caller is told */);
      return working;
    },
    fork: (given, locator, signal) =>
      startAlone(async () => driver.fork(await launchRequest(given, signal, ASIDE), locator)),
    turnEnded(settlement) {
      member.active = null;
      if (residence === null) return;
      if (settlement.settled) residence.tookLastTurn = true;
      if (settlement.keepsProcess) return;
      endResidence(residence.resident.mustRetire() ?? "the turn left it unusable").catch((error: unknown) => {
        // The turn stays what it is; the next launch reaps the slot before it starts anything.
        log.warn("retirement not confirmed", { member: id, error: asHoldfastError(error).message });
      });
    },
    async retire(why) {
      // A process that is being started would be left behind; its turn has been ended, so this does not take long.
      await Promise.all([starting, resting]);
      return endResidence(why);
    },
    async empty(why) {
      await member.retire(why);
      // What an earlier retirement could not end, and what was started without a resident process.
      const left = slot === null ? [] : await reapSlot(slot.mark, clock, config.limits.stopMs);
      if (left.length > 0) throw processesLeft(left);
    },
  };
  return member;
}
