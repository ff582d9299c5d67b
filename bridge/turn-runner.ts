/**
 * The shell of one turn: performs what `protocol/turn-state.ts` says and feeds back what happened. Every effect ends in
 * exactly one event; what comes too late is evidence and changes nothing.
 */

import type { DriverLimits } from "../protocol/bridge-config.ts";
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import type { ControlEvent } from "../protocol/events.ts";
import type { Evidence } from "../protocol/evidence.ts";
import type { Params } from "../protocol/methods.ts";
import type { PermissionReply } from "../protocol/permission.ts";
import type { QuestionAnswers } from "../protocol/question.ts";
import type { ContextStatus, Settlement } from "../protocol/settlement.ts";
import {
  NEW_TURN,
  type TurnEffect,
  type TurnEvent,
  type TurnMachine,
  transition,
} from "../protocol/turn-state.ts";
import type { Observation, Resident } from "./drivers/driver.ts";
import type { Log } from "./log.ts";
import { observedEvent } from "./observed-event.ts";
import type { ProcessExit } from "./process.ts";
import { createTurnRecord, type TurnRecord } from "./turn-record.ts";

export type Submission = Params<"turn.submit">;

/** What preparing a turn ended in. */
export type Preparation =
  | { kind: "ready"; resident: Resident; status: ContextStatus; reason: string }
  | { kind: "refused"; status: ContextStatus | null; reason: string; error: HoldfastError };

export interface RunnerPorts {
  clock: Clock;
  log: Log;
  limits: DriverLimits;
  /** Resolves when the event is durable. */
  append(event: ControlEvent): Promise<unknown>;
  prepare(signal: AbortSignal): Promise<Preparation>;
  /** Asks the CLI, in a new process, whether it stored the message. */
  proveDelivery(nativeId: string, nativeMessage: string): Promise<"absent" | "present" | "unclear">;
  onText(part: string, from: number): void;
  /** What the turn's surroundings have to say, asked once, right before its settlement is made. */
  witnesses?(): Promise<Evidence[]>;
  /** The journal has the settlement. */
  onEnded(settlement: Settlement): void;
  /** The journal can't be written any more: nothing can be promised, so nothing may go on. */
  onBroken(error: HoldfastError): void;
}

export interface TurnRunner {
  readonly submission: Submission;
  start(): void;
  abort(): void;
  observe(observation: Observation): void;
  /** The user's decision on a permission. Throws REQUEST_UNKNOWN, REQUEST_CLOSED. */
  answerPermission(session: string, request: string, reply: PermissionReply): void;
  /** The user's answers, or null to reject. Throws REQUEST_UNKNOWN, REQUEST_CLOSED, REQUEST_INVALID. */
  answerQuestion(session: string, request: string, answers: QuestionAnswers | null): void;
  processExited(exit: ProcessExit): void;
  textOf(part: string): string;
  /** Resolves when the turn has ended and its settlement is journaled, or can't be. */
  readonly ended: Promise<void>;
}

const VERIFY_TRIES = 3;
const VERIFY_WAIT_MS = 200;
/** After an abort the HTTP answer may be ahead of the stream: so long the end is awaited there. */
const END_AFTER_ABORT_MS = 1000;

export function createTurnRunner(submission: Submission, ports: RunnerPorts): TurnRunner {
  const { clock, limits } = ports;
  const record: TurnRecord = createTurnRecord(clock);
  const ids = { member: submission.member, turn: submission.turn };
  const preparing = new AbortController();
  const cancels = new Set<() => void>();
  let machine: TurnMachine = NEW_TURN;
  let resident: Resident | null = null;
  /** The resident has let go of the turn: nothing of it is taken any more. */
  let hasLetGo = false;
  let nativeMessage: string | null = null;
  let sending: Promise<void> | null = null;
  let markEnded: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    markEnded = resolve;
  });

  function note(what: string, source: Evidence["source"], detail = ""): void {
    record.note({
      what,
      source,
      processGeneration: resident?.processGeneration ?? null,
      subscription: resident?.subscription() ?? null,
      sequence: null,
      at: clock.nowAt(),
      detail,
    });
  }

  function dispatch(event: TurnEvent): void {
    const from = machine.state;
    const step = transition(machine, event);
    if (step.isLate) return note(`late_${event}`, "bridge", `in state ${from}`);
    machine = step.turn;
    for (const effect of step.effects) perform(effect);
  }

  /** Runs an effect; a fault of ours must end the turn too, and not float. */
  function perform(effect: TurnEffect): void {
    EFFECTS[effect]().catch((error: unknown) => {
      const fault = asHoldfastError(error);
      ports.log.warn("an effect of a turn failed", { effect, turn: submission.turn, error: fault.message });
      ports.onBroken(fault);
    });
  }

  /** After a freeze a timer fires before the bytes that were waiting are read: these go first (law 13). */
  function after(ms: number, event: TurnEvent): () => void {
    let stop = clock.after(ms, () => {
      stop = clock.afterPoll(() => {
        cancels.delete(cancel);
        dispatch(event);
      });
    });
    const cancel = () => stop();
    cancels.add(cancel);
    return cancel;
  }

  const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));

  const EFFECTS: Record<TurnEffect, () => Promise<void>> = {
    async prepare() {
      after(submission.limitMs || limits.turnMs, "time_limit");
      let preparation: Preparation;
      try {
        preparation = await ports.prepare(preparing.signal);
      } catch (error) {
        const fault = asHoldfastError(error);
        preparation = { kind: "refused", status: null, reason: fault.message, error: fault };
      }
      record.mark("prepared");
      record.context = { status: preparation.status, reason: preparation.reason };
      if (preparation.kind === "ready") resident = preparation.resident;
      else record.error = preparation.error;
      if (preparation.status !== null && machine.state === "preparing") {
        const { status, reason } = preparation;
        // Not awaited: the gate may run beside it. The intent to submit is durable behind it, in the same order.
        journal({
          type: "turn.context",
          ...ids,
          status,
          reason,
          nativeId: resident?.nativeId ?? null,
        });
      }
      dispatch(preparation.kind === "ready" ? "prepared" : "refused");
    },

    async cancel_preparation() {
      preparing.abort();
    },

    async gate() {
      try {
        const evidence = await present(resident).gate();
        record.mark("gated");
        record.note(evidence);
        if (machine.state !== "gating") return dispatch("gate_passed");
        // Not awaited: it shares the sync of the intent to submit, which comes at once.
        journal({ type: "turn.gated", ...ids, evidence });
        dispatch("gate_passed");
      } catch (error) {
        record.error = asHoldfastError(error, "GATE_FAILED");
        dispatch("gate_failed");
      }
    },

    async submit() {
      const carrier = present(resident);
      const message = carrier.nextMessageId();
      await ports.append({ type: "turn.submitting", ...ids, nativeMessage: message });
      // Somebody may have ended the turn while the intent was written: then nothing goes out.
      if (machine.state !== "submitting") return;
      nativeMessage = message;
      sending = carrier.submit({ text: submission.text, nativeMessage: message }).then((result) => {
        record.mark("submitted");
        note(`submit_${result.kind}`, "http", result.kind === "accepted" ? message : result.detail);
        if (result.kind === "rejected") record.error = new HoldfastError("CLI_REFUSED", result.detail);
        if (result.kind === "accepted") dispatch("submit_accepted");
        else dispatch(result.kind === "rejected" ? "submit_rejected" : "submit_unclear");
      });
      await sending;
    },

    async report_delivered() {
      await ports.append({ type: "turn.delivered", ...ids });
    },

    async await_first_event() {
      after(limits.firstEventMs, "first_event_late");
    },

    async abort() {
      // The prompt may still be on its way: an abort that overtakes it would be answered, and the prompt would run.
      await sending;
      // The end came while the intent was written: nothing went out, and nothing will.
      if (nativeMessage === null) return dispatch("proved_absent");
      const carrier = present(resident);
      const deadline = after(limits.abortMs, "abort_late");
      const isQuiet = await carrier.abort();
      note(isQuiet ? "abort_quiet" : "abort_without_effect", "http");
      if (!isQuiet) return;
      if (machine.cause === "submit_unclear")
        return dispatch(await fate(() => carrier.holdsMessage(message())));
      if (carrier.subscription() !== null) await wait(END_AFTER_ABORT_MS);
      deadline();
      if (machine.state === "aborting") dispatch("native_quiet");
    },

    async kill() {
      const left = await present(resident).stop();
      note(
        left.length === 0 ? "process_ended" : "processes_left",
        "process",
        left.map(({ pid }) => pid).join(" "),
      );
      dispatch(left.length === 0 ? "kill_done" : "kill_unconfirmed");
    },

    async prove_delivery() {
      const { nativeId } = present(resident);
      if (nativeMessage === null) return dispatch("proved_absent");
      dispatch(await fate(() => ports.proveDelivery(nativeId, message())));
    },

    async verify() {
      const carrier = present(resident);
      for (let tries = 1; tries <= VERIFY_TRIES; tries += 1) {
        const result = await carrier.verify();
        if (result.kind === "verified" || result.kind === "changed") {
          record.note(result.evidence);
          record.mark("verified");
          if (result.kind === "changed") {
            record.error = new HoldfastError(
              "IDENTITY_CHANGED",
              `the CLI reports ${result.observed}, the turn ran in ${carrier.nativeId}`,
            );
          }
          return dispatch(result.kind === "verified" ? "verified" : "identity_changed");
        }
        note("verify_unavailable", "http", result.detail);
        if (tries < VERIFY_TRIES) await wait(VERIFY_WAIT_MS);
      }
      dispatch("verify_unavailable");
    },

    async finish() {
      for (const cancel of cancels) cancel();
      cancels.clear();
      const carrier = resident;
      const keepsProcess = carrier !== null && canKeep(machine, carrier, nativeMessage !== null);
      carrier?.endTurn();
      hasLetGo = true;
      for (const piece of (await ports.witnesses?.()) ?? []) record.note(piece);
      const settlement = record.conclude(machine, carrier, keepsProcess);
      try {
        await ports.append({ type: "turn.ended", ...ids, number: submission.number, settlement });
        ports.onEnded(settlement);
      } finally {
        markEnded();
      }
    },
  };

  const message = () => present(nativeMessage);

  async function fate(ask: () => Promise<"absent" | "present" | "unclear">): Promise<TurnEvent> {
    try {
      const result = await ask();
      note(`message_${result}`, "history", message());
      if (result === "unclear") return "proof_unavailable";
      return result === "absent" ? "proved_absent" : "proved_present";
    } catch (error) {
      note("proof_unavailable", "history", asHoldfastError(error).message);
      return "proof_unavailable";
    }
  }

  function observe(observation: Observation): void {
    if (hasLetGo || machine.state === "accepted") return;
    // An early end closes what is open: that is still said, and nothing else.
    const isClosing = observation.kind === "permission_closed" || observation.kind === "question_closed";
    if (machine.state === "ended" && !isClosing) return;
    // Before the submission nothing can be this turn's; what else comes is an earlier one's, and must not leak in.
    if (!machine.wasSubmitted && observation.kind !== "stream_lost") return;
    switch (observation.kind) {
      case "own_event":
        record.mark("firstEvent");
        record.note(observation.evidence);
        return dispatch("own_event");
      case "text":
        record.output.put(observation.part, observation.from, observation.text);
        return ports.onText(observation.part, observation.from);
      case "withdrawn":
        record.output.withdraw(observation.part);
        return ports.onText(observation.part, 0);
      case "native_end":
        record.mark("settled");
        record.nativeEnd = observation;
        for (const evidence of observation.evidence) record.note(evidence);
        return dispatch("native_end");
      case "end_overdue":
        record.note(observation.evidence);
        record.nativeError ??= observation.error;
        return dispatch("end_overdue");
      case "stream_lost":
        record.note(observation.evidence);
        record.lostReason ??= `the native event stream was lost: ${observation.reason}`;
        return dispatch("stream_lost");
      case "provider_late":
        record.note(observation.evidence);
        record.error ??= new HoldfastError("PROVIDER_WAIT_LIMIT", observation.reason);
        return dispatch("provider_late");
      case "permission_unresolved":
        record.note(observation.evidence);
        record.error ??= new HoldfastError(observation.code, observation.detail);
        return dispatch("permission_unresolved");
      case "question_closed":
        if (observation.by === "deadline") record.unansweredQuestion = true;
        return journal(observedEvent(ids, observation));
      case "tool":
      case "waiting":
      case "permission_asked":
      case "permission_closed":
      case "question_asked":
        return journal(observedEvent(ids, observation));
      default: {
        const never: never = observation;
        throw new TypeError(`observation ${String(never)} is not handled`);
      }
    }
  }

  /** Whoever can have asked something: before there is one, nothing was asked. */
  function asked(): Resident {
    if (resident === null) throw new HoldfastError("REQUEST_UNKNOWN");
    // Whatever was asked was closed with the turn.
    if (hasLetGo) throw new HoldfastError("REQUEST_CLOSED");
    return resident;
  }

  function journal(event: ControlEvent): void {
    ports.append(event).catch((error: unknown) => ports.onBroken(asHoldfastError(error, "STORE_ERROR")));
  }

  return {
    submission,
    ended,
    start() {
      record.mark("admitted");
      // Somebody may have ended it while its acceptance was written.
      if (machine.state !== "accepted") return;
      dispatch("begin");
    },
    abort() {
      note("abort_requested", "bridge");
      dispatch("abort_requested");
    },
    observe,
    answerPermission: (session, request, reply) => asked().answerPermission(session, request, reply),
    answerQuestion: (session, request, answers) => asked().answerQuestion(session, request, answers),
    processExited(exit) {
      note("process_exit", "process", `code ${exit.code}, signal ${exit.signal}`);
      // Before the turn has its process this is an earlier one's end, and none of the turn's business.
      if (resident === null) return;
      record.exit ??= exit;
      dispatch("process_exited");
    },
    textOf: (part) => record.output.text(part),
  };
}

/** Design, section 6: all four must hold, and the driver agree, or the process is retired. Before a submission only our own wish counts. */
function canKeep(machine: TurnMachine, resident: Resident, wasSent: boolean): boolean {
  const isUsable = !resident.hasExited() && resident.subscription() !== null;
  if (!wasSent) return isUsable && machine.cause !== "gate_failed";
  if (!isUsable || !machine.sawNativeEnd || machine.identity === "identity_changed") return false;
  return resident.mustRetire() === null;
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("INTERNAL", "an effect came before what it needs");
  return value;
}
