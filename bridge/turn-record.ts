/** What is collected while a turn runs, and the settlement made of it. No effects; the runner writes into it. */
import type { Clock } from "../protocol/clock.ts";
import { clip, HoldfastError, toWireError } from "../protocol/errors.ts";
import type { Evidence } from "../protocol/evidence.ts";
import { type ContextStatus, concludeTurn, type Settlement, type Timings } from "../protocol/settlement.ts";
import type { TurnMachine } from "../protocol/turn-state.ts";
import { NO_USAGE, Usage } from "../protocol/usage.ts";
import type { NativeError, Observation, Resident } from "./drivers/driver.ts";
import type { ProcessExit } from "./process.ts";
import { createTurnOutput, type TurnOutput } from "./turn-output.ts";

/** Evidence kept of one turn. Beyond: later pieces are counted, and the count is the last piece. */
const EVIDENCE_KEPT = 64;

const UNKNOWN_USAGE: Usage = { ...NO_USAGE, source: "cli" };

const STAGES = ["admitted", "prepared", "gated", "submitted", "firstEvent", "settled", "verified"] as const;
type Stage = (typeof STAGES)[number];

export interface TurnRecord {
  readonly output: TurnOutput;
  context: { status: ContextStatus | null; reason: string };
  /** The first error of ours. */
  error: HoldfastError | null;
  /** What the CLI reported without ending. */
  nativeError: NativeError | null;
  nativeEnd: Extract<Observation, { kind: "native_end" }> | null;
  exit: ProcessExit | null;
  /** Why the stream was lost. */
  lostReason: string | null;
  /** A question was rejected at its limit: said with the settlement, since the CLI may end the turn over it in silence. */
  unansweredQuestion: boolean;
  mark(stage: Stage): void;
  note(evidence: Evidence): void;
  conclude(machine: TurnMachine, resident: Resident | null, keepsProcess: boolean): Settlement;
}

export function createTurnRecord(clock: Clock): TurnRecord {
  const startMs = clock.monotonicMs();
  const marks = new Map<Stage, number>();
  const evidence: Evidence[] = [];
  let droppedEvidence = 0;

  const record: TurnRecord = {
    output: createTurnOutput(),
    context: { status: null, reason: "" },
    error: null,
    nativeError: null,
    nativeEnd: null,
    exit: null,
    lostReason: null,
    unansweredQuestion: false,
    mark(stage) {
      if (!marks.has(stage)) marks.set(stage, clock.monotonicMs());
    },
    note(piece) {
      if (evidence.length < EVIDENCE_KEPT) evidence.push({ ...piece, detail: clip(piece.detail) });
      else droppedEvidence += 1;
    },
    conclude(machine, resident, keepsProcess) {
      const { nativeEnd } = record;
      const { outcome, settled } = concludeTurn(machine, nativeEnd?.status ?? null);
      if (droppedEvidence > 0) {
        const last = evidence.at(-1);
        if (last !== undefined) last.detail = clip(`${last.detail} (and ${droppedEvidence} later pieces)`);
      }
      const error = errorOf(machine, record);
      return {
        outcome,
        settled,
        context: record.context.status,
        contextReason: clip(record.context.reason),
        session:
          resident === null
            ? null
            : {
                nativeId: resident.nativeId,
                directory: resident.directory,
                tail: nativeEnd?.tail ?? null,
                isVerified: machine.identity === "verified",
              },
        processGeneration: resident?.processGeneration ?? null,
        parts: record.output.parts(),
        textIsCut: record.output.isCut(),
        textIsPartial: machine.wasSubmitted && outcome !== "completed" && outcome !== "not_sent",
        // Figures that can't be true say nothing (law 11), and would be refused on the wire.
        usage: nativeEnd === null ? NO_USAGE : (Usage.safeParse(nativeEnd.usage).data ?? UNKNOWN_USAGE),
        // A copy: what comes later is no part of what was journaled.
        evidence: [...evidence],
        timings: timings(startMs, marks, clock.monotonicMs()),
        error: error === null ? null : toWireError(error),
        keepsProcess,
      };
    },
  };
  return record;
}

function errorOf(machine: TurnMachine, record: TurnRecord): HoldfastError | null {
  if (machine.identity === "identity_changed") return record.error;
  const native = record.nativeEnd?.error ?? record.nativeError;
  const nativeText = native === null ? "" : clip(`${native.name}: ${native.message}`);
  switch (machine.cause) {
    case "native":
      if (record.nativeEnd?.status === "failed") {
        return new HoldfastError("NATIVE_FAILED", nativeText || "the CLI ended the turn without an answer");
      }
      if (machine.identity === "verify_unavailable") return new HoldfastError("IDENTITY_UNVERIFIED");
      return record.unansweredQuestion ? new HoldfastError("QUESTION_UNANSWERED") : null;
    case "refused":
    case "gate_failed":
    case "submit_rejected":
    case "permission_unresolved":
    case "provider_late":
      return record.error ?? new HoldfastError("INTERNAL");
    case "submit_unclear":
      return new HoldfastError("DELIVERY_UNKNOWN");
    case "first_event_late":
      return new HoldfastError("TURN_FIRST_EVENT_LATE");
    case "end_overdue":
      return new HoldfastError("NATIVE_FAILED", nativeText || "the CLI gave no final end");
    case "stream_lost":
      return new HoldfastError("STREAM_LOST", record.lostReason ?? undefined);
    case "process_exited":
      return new HoldfastError(
        "CLI_EXITED",
        `the CLI ended (code ${record.exit?.code ?? null}, signal ${record.exit?.signal ?? null})`,
      );
    case "time_limit":
      return new HoldfastError("TURN_TIME_LIMIT");
    case "abort_requested":
    case null:
      return null;
    default: {
      const never: never = machine.cause;
      throw new TypeError(`cause ${String(never)} is not handled`);
    }
  }
}

/** Each stage from the latest earlier one that was passed. */
function timings(startMs: number, marks: ReadonlyMap<Stage, number>, endMs: number): Timings {
  let lastMs = startMs;
  const spent = new Map<Stage, number>();
  for (const stage of STAGES) {
    const at = marks.get(stage);
    if (at === undefined) continue;
    spent.set(stage, Math.max(0, at - lastMs));
    lastMs = Math.max(lastMs, at);
  }
  const of = (stage: Stage) => spent.get(stage) ?? null;
  return {
    admitMs: of("admitted"),
    prepareMs: of("prepared"),
    gateMs: of("gated"),
    submitMs: of("submitted"),
    firstEventMs: of("firstEvent"),
    settleMs: of("settled"),
    verifyMs: of("verified"),
    totalMs: endMs - startMs,
  };
}
