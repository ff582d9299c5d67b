/**
 * The one catalogue of error codes, and the one error class.
 *
 * Codes are stable and documented in `docs/errors.md` (a test compares); messages are free. An error that crosses the
 * wire carries code, message and details only: never a stack, a cause or a path of the host. A mistake by the
 * programmer is a plain TypeError and has no code.
 */
import * as z from "zod/mini";
import { LIMITS } from "./limits.ts";

/** Code -> when it is given, and the next step for whoever reads it. */
export const ERROR_CATALOGUE = {
  ABORT_NO_TURN: { summary: "There is no active turn with this id.", next: "List the member's turns." },
  ATTESTATION_FAILED: {
    summary: "The sandbox's helper is not exactly the pinned one.",
    next: "Run `holdfast doctor`; rebuild the image with `holdfast image build`.",
  },
  BRIDGE_GONE: {
    summary: "The bridge's process ended or never connected.",
    next: "See the sandbox's log; start it again.",
  },
  CLI_EXITED: {
    summary: "The CLI's process ended by itself.",
    next: "See the settlement's detail; submit again if you wish.",
  },
  CLI_NOT_READY: {
    summary: "The CLI did not become ready within its limit.",
    next: "See the sandbox's log; check the CLI's pin and configuration.",
  },
  CLI_REFUSED: {
    summary: "The CLI refused the prompt; nothing runs.",
    next: "Read the detail; the message was not taken.",
  },
  CLI_UNKNOWN: {
    summary: "No driver exists for this CLI.",
    next: "Use one of the CLIs that `holdfast doctor` lists.",
  },
  CLOCK_BEHIND: {
    summary: "The newest message of the native history lies in the future; the CLI would shorten it.",
    next: "Set the clock right and submit again; nothing was sent.",
  },
  CONTEXT_LOST: {
    summary: "The native conversation can't be established; nothing was sent.",
    next: "Read the reason; start a new member for a new conversation.",
  },
  DELIVERY_UNKNOWN: {
    summary: "Nobody can prove whether the CLI took the prompt.",
    next: "Inspect the turn before you go on.",
  },
  DISK_FULL: {
    summary: "A disk is full, the host's or the sandbox's; what was stored before is whole.",
    next: "Free some space and submit again.",
  },
  ENGINE_ERROR: { summary: "The container engine answered with an error.", next: "Run `holdfast doctor`." },
  ENGINE_MISSING: {
    summary: "No container engine answers.",
    next: "Run `npm run engine`, or use `--sandbox process`.",
  },
  FENCED: {
    summary: "Another controller with a higher fence owns this.",
    next: "Stop this controller; use the owner.",
  },
  FORK_EMPTY: {
    summary: "The member has no settled turn: there is no conversation to fork.",
    next: "Let it settle a turn first, or create a member.",
  },
  FORK_FAILED: {
    summary: "The member was to be a fork, and the fork failed.",
    next: "Read the reason; fork again under another key.",
  },
  FORK_KEY_USED: {
    summary: "This key belongs to another fork.",
    next: "Use another key, or the same parent and id as before.",
  },
  FORK_UNFINISHED: {
    summary: "The member is a fork that is not finished yet.",
    next: "Fork again with the same key: it goes on from where it was.",
  },
  FORK_UNSUPPORTED: {
    summary: "The member's CLI has no fork of its own.",
    next: "Create a member for a new conversation.",
  },
  FRAME_INVALID: { summary: "A frame does not fit its schema.", next: "Both sides must be of one version." },
  FRAME_TOO_LARGE: {
    summary: "A message or line exceeds its limit.",
    next: "See limits in docs/protocol.md.",
  },
  GATE_FAILED: {
    summary: "The event stream could not be proven live; nothing was sent.",
    next: "Submit again; if it repeats, see the sandbox's log.",
  },
  HOST_ALIVE: {
    summary: "The sandbox's host has not let go of it.",
    next: "Drain that host, or remove it with `holdfast host remove` when its machine is gone.",
  },
  HOST_DRAINING: {
    summary: "The host takes no new work.",
    next: "Use another host; `holdfast host ls` lists them.",
  },
  HOST_ENDED: {
    summary: "The host was removed, or has moved out.",
    next: "Give this machine another host id, or use another host.",
  },
  HOST_UNKNOWN: { summary: "There is no such host.", next: "List them with `holdfast host ls`." },
  IDENTITY_CHANGED: {
    summary: "The CLI reported another native id; the saved locator is untouched.",
    next: "Inspect the member; the turn is failed.",
  },
  IDENTITY_UNVERIFIED: {
    summary: "The native id could not be verified for now; it is repeated before the next turn.",
    next: "Submit the next turn.",
  },
  IMAGE_MISSING: { summary: "The sandbox image is not in the engine.", next: "Run `holdfast image build`." },
  INSPECTION_NEEDED: {
    summary: "The member has an unknown turn that nobody has looked at.",
    next: "Run `holdfast turn inspect ID`, then record a note with --note.",
  },
  INSPECTION_NOT_NEEDED: {
    summary: "The turn is not unknown, or has its note already.",
    next: "Nothing: the member takes turns.",
  },
  INTERNAL: { summary: "A fault of Holdfast itself.", next: "Report it with the log." },
  LAUNCH_LIMIT: {
    summary: "The member has had as many launch configurations as are kept.",
    next: "Start a new member.",
  },
  LEASE_ENDED: {
    summary: "The sandbox's lease has ended: it can't be taken over any more.",
    next: "Start a new sandbox.",
  },
  LEASE_LOST: {
    summary: "This controller's lease could not be renewed in time; it drives nothing any more.",
    next: "See whether the store can be reached; start the controller again.",
  },
  LINK_CLOSED: { summary: "The link to the other side closed.", next: "It reconnects by itself; ask again." },
  LINK_TIMEOUT: {
    summary: "The other side did not answer in time.",
    next: "Ask again; see the log if it repeats.",
  },
  MEMBER_BUSY: {
    summary: "The member has an unresolved turn.",
    next: "Wait for it, or abort it.",
  },
  MEMBER_UNKNOWN: { summary: "There is no such member.", next: "List them with `holdfast member ls`." },
  MESSAGE_EMPTY: { summary: "An empty message is refused.", next: "Send some text." },
  MESSAGE_IS_COMMAND: {
    summary: "The message would run a command of the CLI and never reach the model.",
    next: "Put a word or a blank before the slash.",
  },
  MESSAGE_TOO_LARGE: {
    summary: "The message exceeds its limit.",
    next: "Shorten it or put it into a file of the workspace.",
  },
  METHOD_UNKNOWN: {
    summary: "The method is not known on this side.",
    next: "Both sides must be of one version.",
  },
  MODEL_PROTOCOL_UNFIT: {
    summary: "The CLI speaks another protocol than this model.",
    next: "Name a model of the CLI's protocol, or another CLI.",
  },
  MODEL_UNREACHABLE: {
    summary: "The configured model can't be reached from the host.",
    next: "Check the base URL and the key.",
  },
  NATIVE_FAILED: {
    summary: "The CLI ended the turn with an error of its own or of its provider.",
    next: "Read the detail; the conversation is kept.",
  },
  NOTE_INVALID: {
    summary: "An inspection note has 1 to 1024 bytes of well-formed text.",
    next: "Shorten it, or write one.",
  },
  OUTPUT_LIMIT: {
    summary: "A native line or event exceeded its limit.",
    next: "The turn was aborted; ask for less output.",
  },
  OVERLOADED: { summary: "Too much is pending.", next: "Wait and try again." },
  PERMISSION_UNRESOLVED: {
    summary: "A permission request could not be answered; the turn was aborted.",
    next: "Read the endpoint and status in the detail.",
  },
  PROCESS_LEFT: { summary: "Processes of the slot could not be ended.", next: "Stop the sandbox." },
  PROVIDER_WAIT_LIMIT: {
    summary: "The CLI waited too long for its provider; the turn was aborted.",
    next: "Read the provider's message in the detail; submit again later.",
  },
  QUESTION_UNANSWERED: {
    summary: "A native question was rejected, since nobody answered it in time.",
    next: "Answer questions within their limit, or raise it.",
  },
  QUESTION_UNRESOLVED: {
    summary: "A native question could not be answered or rejected; the turn was aborted.",
    next: "Read the endpoint and status in the detail.",
  },
  REQUEST_CLOSED: {
    summary: "This request has its answer, or its turn has ended.",
    next: "Nothing: the answer was not delivered.",
  },
  REQUEST_INVALID: { summary: "The request does not fit its schema.", next: "Correct the named field." },
  REQUEST_UNKNOWN: {
    summary: "No such request was asked in this turn.",
    next: "List the member's open requests.",
  },
  RESUME_FAILED: {
    summary: "The native conversation could not be resumed for a passing reason; it is not lost.",
    next: "Submit again.",
  },
  SANDBOX_ELSEWHERE: {
    summary: "The sandbox is another host's.",
    next: "Ask that host's controller; `holdfast host ls` lists the hosts.",
  },
  SANDBOX_EXISTS: { summary: "A sandbox with this id exists.", next: "Use another id, or the existing one." },
  SANDBOX_FOREIGN: {
    summary: "What stands at the sandbox's place is not what this store made; it is left alone.",
    next: "Look at it yourself; remove it by hand if it is to go.",
  },
  SANDBOX_NOT_RUNNING: { summary: "The sandbox does not run.", next: "Start it." },
  SANDBOX_OUTDATED: {
    summary: "The sandbox was made by an earlier build; turns that run in it are followed to their end.",
    next: "Wait for them; use the build that it was made by, or a new sandbox.",
  },
  SANDBOX_UNFIT: {
    summary: "The sandbox is configured so that nothing can run in it; the conversation is kept.",
    next: "Correct what the message names, such as a place that can't be written.",
  },
  SANDBOX_UNKNOWN: { summary: "There is no such sandbox.", next: "List them with `holdfast sandbox ls`." },
  STOPPED: { summary: "This side is stopping.", next: "Start it again." },
  STORE_DAMAGED: {
    summary: "A record of the store is not what was written.",
    next: "Run `holdfast store check`; bring the store back from a backup.",
  },
  STORE_ERROR: {
    summary: "The store could not be read or written; nothing was sent.",
    next: "Run `holdfast doctor`; check the disk.",
  },
  STORE_NEWER: { summary: "The store was written by a newer version.", next: "Use that version." },
  STORE_OWNED: {
    summary: "Another controller owns this store.",
    next: "Stop it, or use another --store; one that hangs gives way to --take-over.",
  },
  STREAM_LOST: {
    summary: "The native event stream was lost during the turn.",
    next: "The turn was aborted; submit again.",
  },
  TURN_FIRST_EVENT_LATE: {
    summary: "The CLI took the prompt and showed no own event in time.",
    next: "The turn was aborted; submit again.",
  },
  TURN_ID_USED: {
    summary: "This turn id belongs to another message.",
    next: "Submit with another id, or without one.",
  },
  TURN_NUMBER_USED: {
    summary: "This turn number was accepted before.",
    next: "The store is older than the sandbox: submit again, numbers go on from there.",
  },
  TURN_TIME_LIMIT: { summary: "The turn exceeded its time limit.", next: "Raise the limit or ask for less." },
  TURN_UNKNOWN: { summary: "There is no such turn.", next: "Check the id." },
  TURN_VETOED: {
    summary: "This turn was declared never received; it can't be sent any more.",
    next: "Submit a new turn.",
  },
  USAGE: { summary: "The command line is not understood.", next: "See --help." },
} as const satisfies Record<string, { summary: string; next: string }>;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

const CODES = Object.keys(ERROR_CATALOGUE) as [ErrorCode, ...ErrorCode[]];

/** An error on the wire. Details are short texts, never secrets. */
export const WireError = z.object({
  code: z.enum(CODES),
  message: z.string().check(z.maxLength(LIMITS.reasonChars)),
  details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
});
export type WireError = z.infer<typeof WireError>;

export type ErrorDetails = WireError["details"];

/** The project's one error class. `next` is the catalogue's next step. */
export class HoldfastError extends Error {
  override readonly name = "HoldfastError";
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message?: string, options: { details?: ErrorDetails; cause?: unknown } = {}) {
    super(
      message ?? ERROR_CATALOGUE[code].summary,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.details = options.details ?? {};
  }

  get next(): string {
    return ERROR_CATALOGUE[this.code].next;
  }
}

/** Shortens a text for the wire. */
export function clip(text: string, chars: number = LIMITS.reasonChars): string {
  return text.length <= chars ? text : `${text.slice(0, chars - 1)}…`;
}

/** What of an error may cross the wire. Anything that is not ours becomes INTERNAL without its text. */
export function toWireError(error: unknown): WireError {
  // A fault of our own may carry a foreign message, with a path or worse: it stays here, with its cause.
  if (error instanceof HoldfastError && !(error.code === "INTERNAL" && error.cause !== undefined)) {
    return { code: error.code, message: clip(error.message), details: error.details };
  }
  return { code: "INTERNAL", message: ERROR_CATALOGUE.INTERNAL.summary, details: {} };
}

export function fromWireError(error: WireError): HoldfastError {
  return new HoldfastError(error.code, error.message, { details: error.details });
}

/** Any thrown value as one of ours; the original stays as cause. */
export function asHoldfastError(error: unknown, code: ErrorCode = "INTERNAL"): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new HoldfastError(code, `${ERROR_CATALOGUE[code].summary} (${clip(text, 300)})`, { cause: error });
}

/** What the file system says, and SQLite, when there is no room: ENOSPC, EDQUOT, SQLITE_FULL. */
const FULL_CODES: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);
const SQLITE_FULL = 13;

/** A write that failed: DISK_FULL when there was no room, else STORE_ERROR. The message says what could not be written. */
export function storageFault(message: string, cause: unknown): HoldfastError {
  const { code, errcode } = (cause ?? {}) as { code?: unknown; errcode?: unknown };
  if (!FULL_CODES.has(code) && errcode !== SQLITE_FULL)
    return new HoldfastError("STORE_ERROR", message, { cause });
  return new HoldfastError("DISK_FULL", `${message}: the disk is full`, { cause });
}
