/**
 * The driver contract: what a CLI must offer to be a member.
 *
 * A driver turns native bytes into observations and evidence and carries out what it is told; the turn machine decides.
 * It never sees sockets of the controller, the journal or other members. One suite (`test/conformance`) runs over every
 * driver; what a CLI lacks is in its manifest.
 */

import type { DriverLimits } from "../../protocol/bridge-config.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { ResumeResult } from "../../protocol/context-status.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { ForkedSession } from "../../protocol/fork.ts";
import type { Launch } from "../../protocol/launch.ts";
import type { CliName, Locator, TailReference } from "../../protocol/locator.ts";
import type { PermissionReply, PermissionRequest } from "../../protocol/permission.ts";
import type { PermissionAction } from "../../protocol/permission-policy.ts";
import type {
  Ancestry,
  DecidedBy,
  QuestionAnswers,
  QuestionRequest,
  RequestClosing,
} from "../../protocol/question.ts";
import type { NativeStatus } from "../../protocol/settlement.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { ProcessEntry } from "../census.ts";
import type { Log } from "../log.ts";
import type { ProcessExit } from "../process.ts";
import type { Slot } from "../slots.ts";
import type { VersionRange } from "./version-range.ts";

/** What a driver can do, as data. */
export interface DriverManifest {
  readonly cli: CliName;
  /** How its stream is proven live before a prompt. */
  readonly gate: "canary-on-stream" | "answer-on-pipe";
  /** After its process's death it can be asked whether a prompt was stored. */
  readonly provesDelivery: boolean;
  /** Asks for permission by itself, and for its Task children. */
  readonly asksPermission: boolean;
  readonly asksQuestions: boolean;
  readonly reportsUsage: boolean;
  /** Has subagents: sessions under the root's, whose requests are the turn's too. */
  readonly hasSubagents: boolean;
  /** How it forks a conversation by itself, without a prompt or with one; null when it can't. */
  readonly fork: NativeFork | null;
  /** What holds for some versions only, each with its reason. */
  readonly ranges: Readonly<Partial<Record<VersionedBehaviour, VersionRange>>>;
}

export interface NativeFork {
  /** `with_first_turn`: no session is made before the new member's first turn; until then the fork is prepared alone. */
  readonly when: "at_once" | "with_first_turn";
  /** The folder of a slot that holds its conversations, relative to the slot; copied from the parent's slot. */
  readonly state: string;
  /** What of it is left out, as patterns of tar: logs, and what only the running process needs. */
  readonly except: readonly string[];
}

/**
 * Behaviour that the bridge must know of and that depends on the CLI's version.
 * `retire_after_retry`: a further turn in a process that has retried a request loses history at the next resume.
 * `no_background`: work that outlives its turn is switched off, whatever the member allows.
 */
type VersionedBehaviour = "retire_after_retry" | "no_background";

/** A native error, stripped of what may leak (addresses, response bodies). */
export interface NativeError {
  name: string;
  message: string;
}

/** What a driver reports of the active turn. Each is delivered in the order of the native stream. */
export type Observation =
  /** First event that belongs to this very turn. */
  | { kind: "own_event"; evidence: Evidence }
  /** Assistant text of the root. `from` is where in the part it starts, in UTF-16 units; what was beyond is replaced. */
  | { kind: "text"; part: string; from: number; text: string }
  | { kind: "withdrawn"; part: string }
  | {
      kind: "tool";
      session: string;
      call: string;
      tool: string;
      status: "running" | "completed" | "failed";
      title: string;
    }
  | { kind: "waiting"; reason: string; attempt: number; nextAt: number | null }
  | {
      kind: "permission_asked";
      request: PermissionRequest;
      ancestry: Ancestry;
      action: PermissionAction;
      deadlineAt: number | null;
    }
  | {
      kind: "permission_closed";
      request: string;
      session: string;
      result: RequestClosing;
      reply: PermissionReply | null;
      by: DecidedBy;
      detail: string;
    }
  | { kind: "question_asked"; question: QuestionRequest; deadlineAt: number }
  | {
      kind: "question_closed";
      request: string;
      session: string;
      result: RequestClosing;
      reply: "answered" | "rejected" | null;
      by: DecidedBy;
      detail: string;
    }
  /** The checked settlement rule holds. */
  | {
      kind: "native_end";
      status: NativeStatus;
      error: NativeError | null;
      tail: TailReference | null;
      usage: Usage;
      evidence: Evidence[];
    }
  /** An error or a provisional end was reported, and no final one in time. */
  | { kind: "end_overdue"; error: NativeError | null; evidence: Evidence }
  | { kind: "stream_lost"; reason: string; evidence: Evidence }
  /** The wait for the provider took longer than its limit. */
  | { kind: "provider_late"; reason: string; evidence: Evidence }
  /** A request of the CLI could not be answered. */
  | { kind: "permission_unresolved"; code: ErrorCode; detail: string; evidence: Evidence };

/** What a resident process tells the member, with or without an active turn. */
export interface ResidentListener {
  onObservation(observation: Observation): void;
  onSubscription(subscription: number, state: "live" | "lost" | "closed", detail: string): void;
  /** The CLI does something by itself, outside any turn of ours. */
  onUnrequested(session: string, state: "started" | "ended", detail: string): void;
  onExit(exit: ProcessExit): void;
}

export type SubmitResult =
  | { kind: "accepted" }
  /** Nothing can run. */
  | { kind: "rejected"; detail: string }
  /** Nobody knows yet. */
  | { kind: "unclear"; detail: string };

export type IdentityResult =
  | { kind: "verified"; nativeId: string; evidence: Evidence }
  | { kind: "changed"; observed: string; evidence: Evidence }
  | { kind: "unavailable"; detail: string };

export interface Prompt {
  text: string;
  /** Our id for the native user message, in the native format. */
  nativeMessage: string;
}

/** One running CLI process of a member, with its session. Every call is bounded by the driver's limits. */
export interface Resident {
  readonly processGeneration: number;
  /** The session's native id: a candidate until its first turn has settled. */
  readonly nativeId: string;
  /** Canonical working directory of the session. */
  readonly directory: string;
  /** The live subscription's number, or null. */
  subscription(): number | null;
  hasExited(): boolean;
  /** Why this process may take no further turn although the last one ended well, or null. Asked when a turn ends, and before one begins. */
  mustRetire(): string | null;
  /** Passes when an event that we caused has come back on the subscription which will carry the turn. Throws GATE_FAILED. */
  gate(): Promise<Evidence>;
  /** An id for the next user message. */
  nextMessageId(): string;
  submit(prompt: Prompt): Promise<SubmitResult>;
  /**
   * Asks for the end of the active turn, once, and not before the turn is seen to have started: an abort of a session
   * that is still idle answers true, and the prompt runs afterwards. True when the CLI says that nothing of the session runs any more. */
  abort(): Promise<boolean>;
  /** Whether the CLI has stored this user message; asked when a submission's fate is unclear. */
  holdsMessage(nativeMessage: string): Promise<"absent" | "present" | "unclear">;
  /** The native id as the CLI itself gives it now, compared with the one that the turn ran under. */
  verify(): Promise<IdentityResult>;
  /** The user's decision. Throws REQUEST_UNKNOWN, REQUEST_CLOSED. */
  answerPermission(session: string, request: string, reply: PermissionReply): void;
  /** The user's answers, or null to reject. Throws REQUEST_UNKNOWN, REQUEST_CLOSED, REQUEST_INVALID. */
  answerQuestion(session: string, request: string, answers: QuestionAnswers | null): void;
  /** Lets go of the active turn: later native events are nobody's. */
  endTurn(): void;
  /** Ends the process; returns what of the slot could not be ended. */
  stop(): Promise<ProcessEntry[]>;
}

export interface LaunchRequest {
  slot: Slot;
  launch: Launch;
  command: readonly string[];
  cliVersion: string;
  processGeneration: number;
  /** Base URL of the model for the CLI, on the sandbox's loopback. */
  modelUrl: string;
  /** Stands where a provider's key would: this process's own token, or `PLACEHOLDER_KEY` for one that must never ask the model. */
  modelKey: string;
  limits: DriverLimits;
  clock: Clock;
  log: Log;
  listener: ResidentListener;
  /** The locator is another member's, whose state was copied into this slot: it is forked, never resumed itself. */
  forks: boolean;
  /** Number of the next subscription; raised by the driver for each. */
  nextSubscription: () => number;
  signal: AbortSignal;
}

/** A process with a new session, or with the locator's session resumed and proven; or why not. */
export type LaunchResult =
  | { kind: "new"; resident: Resident }
  | { kind: "resumed"; resident: Resident; resume: ResumeResult & { kind: "proven" } }
  /** The process was ended again. */
  | { kind: "not_resumed"; resume: Exclude<ResumeResult, { kind: "proven" }> };

export interface Driver {
  readonly manifest: DriverManifest;
  /** Throws CLI_NOT_READY and its like; whatever was started has then been ended. */
  launch(request: LaunchRequest, locator: Locator | null): Promise<LaunchResult>;
  /**
   * Forks the locator's conversation, which was copied into this slot, and ends its process again. The new session holds
   * the whole history up to the locator's tail, which is checked. Null from a CLI that forks with its first turn: only the
   * copy has been checked. Throws CONTEXT_LOST when the copy is not the locator's conversation; what else it throws may pass.
   */
  fork(request: LaunchRequest, locator: Locator): Promise<ForkedSession | null>;
  /** After a death around the submission: was this message stored by the CLI? Starts a process of its own for it. */
  proveDelivery(
    request: LaunchRequest,
    nativeId: string,
    nativeMessage: string,
  ): Promise<"absent" | "present" | "unclear">;
}
