/**
 * The members of this sandbox: takes submissions, keeps at most one process and one active turn a member, and prepares
 * turns. What a turn does is the runner's; what a context is worth is decided by `protocol/context-status.ts`.
 */

import type { BridgeConfig } from "../protocol/bridge-config.ts";
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { ControlEvent } from "../protocol/events.ts";
import type { CliName } from "../protocol/locator.ts";
import type { Params, Result } from "../protocol/methods.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { textProblem } from "../protocol/user-text.ts";
import type { Driver } from "./drivers/driver.ts";
import { DRIVERS } from "./drivers/registry.ts";
import { createForks } from "./forks.ts";
import { type Journal, UNACKED_EVENTS } from "./journal.ts";
import type { Log } from "./log.ts";
import { createInterruptedTurns } from "./lost-turns.ts";
import { createMember, type Member } from "./member.ts";
import { watchMemory } from "./memory-kills.ts";
import type { Outbox } from "./outbox.ts";
import { createTurnRunner, type Submission, type TurnRunner } from "./turn-runner.ts";

export interface MembersOptions {
  config: BridgeConfig;
  journal: Journal;
  outbox: Outbox;
  clock: Clock;
  log: Log;
  modelUrl: string;
  modelToken(member: string, processGeneration: number): string;
  /** There is something to send. */
  onReady(): void;
  /** The journal failed: the bridge must end. */
  onBroken(error: HoldfastError): void;
  drivers?: ReadonlyMap<CliName, Driver>;
  unackedEvents?: number;
}

export interface Members {
  submit(submission: Submission): Promise<void>;
  abort(turn: string): void;
  answerPermission(params: Params<"permission.answer">): void;
  answerQuestion(params: Params<"question.answer">): void;
  /** What became of a turn. `never_received` is a promise: it is in the journal before it is answered. */
  recover(params: Params<"turn.recover">): Promise<Result<"turn.recover">["state"]>;
  status(): Promise<Result<"bridge.status">>;
  retire(member: string): Promise<boolean>;
  /** Forks a member's conversation into one that has taken no turn. */
  fork(params: Params<"member.fork">): Promise<Result<"member.fork">>;
  isActive(turn: string): boolean;
  textOf(turn: string, part: string): string;
  /** Takes nothing new, aborts what runs, ends every process. */
  stop(): Promise<void>;
}

export function createMembers(options: MembersOptions): Members {
  const { config, journal, outbox, clock, log } = options;
  const members = new Map<string, Member>();
  const turns = new Map<string, TurnRunner>();
  const vetoing = new Set<string>();
  const drivers = options.drivers ?? DRIVERS;
  const unackedEvents = options.unackedEvents ?? UNACKED_EVENTS;
  let isStopping = false;
  let isShedding = false;

  function append(event: ControlEvent): Promise<unknown> {
    return journal.append(event);
  }

  function isOverloaded(): boolean {
    return journal.state.unacked.length >= unackedEvents;
  }

  /** The controller was away too long for what the journal may keep: what runs is ended, and says so. */
  function shed(): void {
    isShedding = true;
    log.warn("too many unacknowledged events; running turns are ended", { events: unackedEvents });
    for (const runner of turns.values()) runner.abort();
  }
  journal.onDurable(() => {
    if (isOverloaded() && !isShedding) shed();
  });

  function report(event: ControlEvent): void {
    append(event).catch((error: unknown) => options.onBroken(asHoldfastError(error, "STORE_ERROR")));
  }

  function memberOf(submission: Pick<Submission, "member" | "launch">): Member {
    const { cli } = submission.launch;
    const known = members.get(submission.member);
    if (known !== undefined) {
      if (known.cli !== cli)
        throw new HoldfastError("REQUEST_INVALID", `the member is of ${known.cli}, not ${cli}`);
      return known;
    }
    const driver = drivers.get(cli);
    const entry = config.clis.find((candidate) => candidate.cli === cli);
    if (driver === undefined || entry === undefined)
      throw new HoldfastError("CLI_UNKNOWN", `no driver for ${cli}`);
    const made = createMember({
      id: submission.member,
      driver,
      command: entry.command,
      cliVersion: entry.version,
      config,
      modelUrl: options.modelUrl,
      modelToken: (generation) => options.modelToken(submission.member, generation),
      clock,
      log,
      report,
    });
    members.set(submission.member, made);
    return made;
  }

  function check(submission: Submission): Member {
    if (isStopping) throw new HoldfastError("STOPPED");
    const problem = textProblem(submission.launch.cli, submission.text);
    if (problem !== null) throw problem;
    const isVetoed = vetoing.has(submission.turn) || journal.state.closed.get(submission.turn) === "vetoed";
    if (isVetoed) throw new HoldfastError("TURN_VETOED");
    if (isOverloaded()) throw new HoldfastError("OVERLOADED", "too many events are unacknowledged");
    isShedding = false;
    const highest = journal.state.numbers.get(submission.member) ?? 0;
    if (submission.number <= highest || journal.state.closed.has(submission.turn)) {
      throw new HoldfastError("TURN_NUMBER_USED", `number ${submission.number} is not above ${highest}`);
    }
    const member = memberOf(submission);
    if (member.active !== null || hasOpenTurn(member.id) || forks.isForking(member.id))
      throw new HoldfastError("MEMBER_BUSY");
    return member;
  }

  /** One that an earlier life left counts too. */
  function hasOpenTurn(id: string): boolean {
    return [...journal.state.open.values()].some((open) => open.member === id);
  }

  const interrupted = createInterruptedTurns({
    journal,
    clock,
    isRunning: (turn) => turns.has(turn),
    async prove({ member, nativeId, nativeMessage }, launch) {
      if (nativeId === null || nativeMessage === null) return "unclear";
      return memberOf({ member, launch }).proveDelivery(launch, nativeId, nativeMessage);
    },
    onBroken(error) {
      // Left open, for the next life.
      if (!isStopping) options.onBroken(asHoldfastError(error, "STORE_ERROR"));
    },
  });

  const forks = createForks({
    clock,
    memberOf: (member, launch) => memberOf({ member, launch }),
    forkOf: (cli) => drivers.get(cli)?.manifest.fork ?? null,
    hasOpenTurn,
    lastNumber: (member) => journal.state.numbers.get(member) ?? 0,
  });

  function runnerFor(member: Member, submission: Submission): TurnRunner {
    return createTurnRunner(submission, {
      clock,
      log,
      limits: config.limits,
      append,
      ...(config.isolation === "container" ? { witnesses: watchMemory(clock) } : {}),
      prepare: (signal) => member.prepare(submission, signal),
      proveDelivery: (nativeId, nativeMessage) =>
        member.proveDelivery(submission.launch, nativeId, nativeMessage),
      onText(part, from) {
        outbox.touch(submission.turn, part, from);
        options.onReady();
      },
      onEnded: (settlement) => onEnded(member, submission, settlement),
      onBroken: options.onBroken,
    });
  }

  function active(turn: string): TurnRunner {
    const runner = turns.get(turn);
    if (runner === undefined) throw new HoldfastError("ABORT_NO_TURN");
    return runner;
  }

  function onEnded(member: Member, submission: Submission, settlement: Settlement): void {
    outbox.forget(submission.turn);
    turns.delete(submission.turn);
    member.turnEnded(settlement);
    options.onReady();
  }

  return {
    async submit(submission) {
      const member = check(submission);
      const runner = runnerFor(member, submission);
      // Taken before the first wait: a second submission in the meantime finds the member busy.
      member.active = runner;
      turns.set(submission.turn, runner);
      try {
        const { turn, member: id, number } = submission;
        await append({ type: "turn.accepted", member: id, turn, number });
      } catch (error) {
        member.active = null;
        turns.delete(submission.turn);
        throw error;
      }
      runner.start();
    },
    abort(turn) {
      if (!interrupted.conclude(turn, null)) active(turn).abort();
    },
    answerPermission: ({ turn, session, request, reply }) =>
      active(turn).answerPermission(session, request, reply),
    answerQuestion: ({ turn, session, request, answers }) =>
      active(turn).answerQuestion(session, request, answers),
    async recover({ turn, member, number, launch }) {
      // Of an interrupted one the end is found out, and comes as every end does.
      if (turns.has(turn) || interrupted.conclude(turn, launch)) return "active";
      const known = journal.state.closed.get(turn);
      if (known !== undefined) return known === "ended" ? "ended" : "never_received";
      // A number that was accepted belongs to a turn whose end is no longer remembered.
      if (number <= (journal.state.numbers.get(member) ?? 0)) return "forgotten";
      // From now on, and not only once it is stored: a submission of the same turn may be right behind.
      vetoing.add(turn);
      try {
        await append({ type: "turn.vetoed", member, turn });
      } finally {
        vetoing.delete(turn);
      }
      return "never_received";
    },
    async status() {
      const all = [...members.values()].map(async (member) => {
        const rssBytes = await member.residentBytes();
        const resident = member.resident();
        const standing = member.standing();
        if (resident === null || standing === null) return [];
        return [
          {
            member: member.id,
            cli: member.cli,
            processGeneration: resident.processGeneration,
            subscription: resident.subscription() ?? 0,
            activeTurn: member.active?.submission.turn ?? null,
            nativeId: resident.nativeId,
            tookLastTurn: standing.tookLastTurn,
            launchDigest: standing.launchDigest,
            launchParts: standing.launchParts,
            rssBytes,
          },
        ];
      });
      return {
        members: (await Promise.all(all)).flat(),
        openTurns: [...journal.state.open.values()].map(({ turn, member, number }) => ({
          turn,
          member,
          number,
        })),
        numbers: [...journal.state.numbers].map(([member, number]) => ({ member, number })),
      };
    },
    async retire(id) {
      const member = members.get(id);
      if (member === undefined) return false;
      if (member.active !== null) throw new HoldfastError("MEMBER_BUSY");
      return member.retire("asked by the host");
    },
    async fork(params) {
      if (isStopping) throw new HoldfastError("STOPPED");
      return forks.fork(params);
    },
    isActive: (turn) => turns.has(turn),
    textOf: (turn, part) => turns.get(turn)?.textOf(part) ?? "",
    async stop() {
      isStopping = true;
      const running = [...turns.values()];
      for (const runner of running) runner.abort();
      await Promise.all([...running.map((runner) => runner.ended), forks.stop()]);
      const retired = await Promise.allSettled(
        [...members.values()].map((member) => member.empty("the sandbox stops")),
      );
      for (const result of retired) if (result.status === "rejected") throw result.reason;
    },
  };
}
