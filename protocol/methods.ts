/**
 * All that a controller can ask of a bridge: name -> params, result, errors. Params are one object.
 * Documented in `docs/protocol.md`; a test compares.
 */
import * as z from "zod/mini";
import { HelperReport } from "./attestation.ts";
import type { ErrorCode } from "./errors.ts";
import { ForkedSession } from "./fork.ts";
import { Count, Digest, NativeId, OurId } from "./ids.ts";
import { Launch } from "./launch.ts";
import { LaunchParts } from "./launch-parts.ts";
import { LIMITS } from "./limits.ts";
import { CliName, ContainerIdentity, Locator } from "./locator.ts";
import { PermissionReply } from "./permission.ts";
import { QuestionAnswers } from "./question.ts";

const Nothing = z.object({});

export const METHODS = {
  /** Proves that this helper has these bytes and this token. */
  "bridge.challenge": {
    params: z.object({ nonce: Digest }),
    result: HelperReport,
    errors: [],
  },
  /** What is resident and active now, and which turn numbers were taken. */
  "bridge.status": {
    params: Nothing,
    result: z.object({
      members: z.array(
        z.object({
          member: OurId,
          cli: CliName,
          processGeneration: Count,
          subscription: Count,
          activeTurn: z.nullable(OurId),
          nativeId: NativeId,
          /** Its last turn was the member's last one, and settled. */
          tookLastTurn: z.boolean(),
          launchDigest: Digest,
          launchParts: LaunchParts,
          /** Resident memory of all processes of the slot; pages that they share count in each. */
          rssBytes: z.nullable(Count),
        }),
      ),
      /** Turns that were taken and have not ended. */
      openTurns: z.array(z.object({ turn: OurId, member: OurId, number: Count })),
      /** The highest number that was taken of each member, remembered beyond all turns. */
      numbers: z.array(z.object({ member: OurId, number: Count })),
    }),
    errors: [],
  },
  /** Takes one user message. The answer means: durable in the bridge's journal. */
  "turn.submit": {
    params: z.object({
      turn: OurId,
      member: OurId,
      /** Rises by one with each submission of the member; the bridge refuses one that it has seen. */
      number: Count,
      /** Well-formed Unicode: half a surrogate pair can't travel unchanged (law 1). */
      text: z.string().check(
        z.minLength(1),
        z.maxLength(LIMITS.userTextBytes),
        z.refine((text) => text.isWellFormed()),
      ),
      launch: Launch,
      /** What the launch's digest is made of: a change is told by name. */
      launchParts: LaunchParts,
      locator: z.nullable(Locator),
      /** The locator's id was not verified at its settlement: it must be, before anything is sent. */
      locatorIsPending: z.boolean(),
      /**
       * Why what the host holds may be behind the native conversation (an `unknown` turn came before), or null: then no
       * resident process goes on by itself, and the history is proven anew.
       */
      mustProve: z.nullable(z.string().check(z.minLength(1), z.maxLength(LIMITS.reasonChars))),
      /**
       * The locator is another member's, whose native state was copied into this member's slot (`member.fork`): the CLI
       * forks it with this turn, and what it resumes is the new session.
       */
      forks: z.boolean(),
      settledTurns: Count,
      container: ContainerIdentity,
      /** Limit of the whole turn; 0 means the bridge's own default. */
      limitMs: Count,
    }),
    result: Nothing,
    errors: [
      "CLI_UNKNOWN",
      "MEMBER_BUSY",
      "MESSAGE_EMPTY",
      "MESSAGE_IS_COMMAND",
      "MESSAGE_TOO_LARGE",
      "OVERLOADED",
      "STOPPED",
      "STORE_ERROR",
      "TURN_NUMBER_USED",
      "TURN_VETOED",
    ],
  },
  /** Asks for the end of an active turn; the settlement tells what became of it. */
  "turn.abort": {
    params: z.object({ turn: OurId }),
    result: Nothing,
    errors: ["ABORT_NO_TURN"],
  },
  /**
   * What became of a turn that the controller admitted? `active` also when it was interrupted by the bridge's death and
   * its end is being found out. `never_received` is a promise: it is journaled as a veto before
   * it is answered, and this id can't be submitted any more.
   */
  "turn.recover": {
    params: z.object({
      turn: OurId,
      member: OurId,
      number: Count,
      /** How its CLI is started, should its history have to be asked; null when the host can't tell. */
      launch: z.nullable(Launch),
    }),
    result: z.object({ state: z.enum(["never_received", "active", "ended", "forgotten"]) }),
    errors: ["STORE_ERROR"],
  },
  /** The user's decision on a permission that the policy leaves to the user. */
  "permission.answer": {
    params: z.object({ turn: OurId, session: NativeId, request: NativeId, reply: PermissionReply }),
    result: Nothing,
    errors: ["ABORT_NO_TURN", "REQUEST_CLOSED", "REQUEST_UNKNOWN"],
  },
  /** Answers a native question, or rejects it with null. One answer each. */
  "question.answer": {
    params: z.object({
      turn: OurId,
      session: NativeId,
      request: NativeId,
      answers: z.nullable(QuestionAnswers),
    }),
    result: Nothing,
    errors: ["ABORT_NO_TURN", "REQUEST_CLOSED", "REQUEST_INVALID", "REQUEST_UNKNOWN"],
  },
  /** Retires the member's resident process gracefully. Refused while a turn is active. */
  "member.retire": {
    params: z.object({ member: OurId }),
    result: z.object({ wasResident: z.boolean() }),
    errors: ["MEMBER_BUSY", "PROCESS_LEFT"],
  },
  /**
   * Forks a member's conversation into a member that has taken no turn yet: the parent's native state is copied from
   * slot to slot while its CLI is at rest, and the CLI forks the copy. May be repeated; what an earlier try left in the
   * new slot is replaced. Of two at once the second gets the first one's answer.
   */
  "member.fork": {
    params: z.object({
      member: OurId,
      parent: OurId,
      /** Turn numbers of the parent so far. Beyond: it has moved on since, and the locator is an older one. */
      parentNumber: Count,
      /** How the new member's CLI is started. */
      launch: Launch,
      /** The parent's. */
      locator: Locator,
    }),
    /** Null when this CLI forks with a turn alone: then the copy is in place, and `turn.submit` says `forks`. */
    result: z.object({ session: z.nullable(ForkedSession) }),
    errors: [
      "CLI_EXITED",
      "CLI_NOT_READY",
      "CLI_REFUSED",
      "CLI_UNKNOWN",
      "CONTEXT_LOST",
      "DISK_FULL",
      "FORK_UNSUPPORTED",
      "MEMBER_BUSY",
      "PROCESS_LEFT",
      "REQUEST_INVALID",
      "STOPPED",
    ],
  },
} as const satisfies Record<string, MethodRow>;

interface MethodRow {
  params: z.ZodMiniType;
  result: z.ZodMiniType;
  errors: readonly ErrorCode[];
}

export type MethodName = keyof typeof METHODS;
export type Params<M extends MethodName> = z.infer<(typeof METHODS)[M]["params"]>;
export type Result<M extends MethodName> = z.infer<(typeof METHODS)[M]["result"]>;

/** One function a method; the bridge implements it. */
export type MethodTable = { [M in MethodName]: (params: Params<M>) => Promise<Result<M>> };
