/** What a host is, for whoever uses it as a library: its options and its calls. Types alone. */
import type { Clock } from "../protocol/clock.ts";
import type { CliName } from "../protocol/locator.ts";
import type { Params } from "../protocol/methods.ts";
import type { DeploymentReport } from "./deployment.ts";
import type { ForkOptions } from "./forks.ts";
import type { HostReport } from "./host-report.ts";
import type { TurnInspection } from "./inspection.ts";
import type { NextContext } from "./next-context.ts";
import type { UserRequest } from "./open-requests.ts";
import type { RelayOptions } from "./relay/routes.ts";
import type { ResidencyLimits } from "./residency-decision.ts";
import type { SandboxDriver } from "./sandboxes/sandbox.ts";
import type { Budget } from "./store/budgets.ts";
import type { CallsOf } from "./store/model-calls.ts";
import type {
  ForkRow,
  InspectionRow,
  MemberOptions,
  MemberRow,
  SandboxKind,
  SandboxRow,
  TurnRow,
} from "./store/records.ts";
import type { Store, UnrequestedEntry } from "./store/store.ts";
import type { TurnHandle } from "./turn-handle.ts";
import type { UsageReport } from "./usage-report.ts";

export interface HostOptions {
  /** Folder of the store and of the sandboxes' sockets; made when missing, owner-only. */
  directory: string;
  /**
   * The PostgreSQL database that the store is in, `postgres://USER@HOST:PORT/DATABASE`, or the variable that holds it; it is
   * never told. Default: the store is a file in the folder.
   */
  storeUrl?: string | { variable: string };
  /** Name of this host in the database; each name has one controller. Default "host". */
  hostId?: string;
  /** One driver a kind of sandbox that this host offers. */
  drivers: readonly SandboxDriver[];
  /** The ways to the models, and what a call may take. */
  relay: RelayOptions;
  /** Where keys that a route, and a store's URL that an option, names by variable are looked up. Default: the environment of this process. */
  variables?: Readonly<NodeJS.ProcessEnv>;
  clock?: Clock;
  /**
   * Takes the store from a controller that hangs. That one is fenced off: it writes nothing any more, and lets go of its
   * sandboxes as soon as it notices. Default: a store that is owned is refused with STORE_OWNED.
   */
  takeOver?: boolean;
  /** How many CLI processes may be resident and start, and for how long. Default: see there; memory half of the machine's. */
  residency?: Partial<ResidencyLimits>;
  /** Things that went wrong and were handled; never a user's or a model's text. */
  onWarning?: (what: string, detail: string) => void;
}

export interface TurnOptions {
  /** The platform's own id for the turn, with which a submission may be repeated; made when missing. */
  id?: string;
  /** Limit of the whole turn, ms; the bridge's own when missing. */
  limitMs?: number;
}

export interface Host {
  /** Makes a sandbox. Nothing runs yet. Throws SANDBOX_EXISTS. */
  createSandbox(options: { kind: SandboxKind; id?: string }): SandboxRow;
  sandboxes(): SandboxRow[];
  /** Starts it and attests its helper, without a turn. Throws ATTESTATION_FAILED with every reason. */
  startSandbox(id: string): Promise<void>;
  /** Stops it; its files and conversations stay. Throws MEMBER_BUSY while a turn runs, unless `abort`. */
  stopSandbox(id: string, options?: { abort?: boolean }): Promise<void>;
  /** Removes it with everything in it. May be repeated. */
  removeSandbox(id: string): Promise<void>;
  /**
   * Default: everything is allowed, once each, and nothing works on behind a turn that has ended. Throws REQUEST_INVALID,
   * and MODEL_PROTOCOL_UNFIT when the model's protocol is not the one that the CLI speaks.
   */
  createMember(
    options: { sandbox: string; cli: CliName; id?: string } & Pick<MemberOptions, "model"> &
      Partial<MemberOptions>,
  ): MemberRow;
  /**
   * Forks a member's conversation into a new member of the same sandbox, with the CLI's own fork and without a prompt; the
   * parent goes on as it was. The new member's first turn is RESTORED with the parent's whole history. Resolves when the
   * fork is `ready`; or still `prepared` with `awaits_turn`, for a CLI that makes it with that first turn. The same key
   * again goes on from where it was, and gives the same member. Throws FORK_EMPTY, FORK_KEY_USED, FORK_UNFINISHED,
   * FORK_UNSUPPORTED, MEMBER_BUSY, INSPECTION_NEEDED, CONTEXT_LOST; what may pass leaves the fork as it is.
   */
  forkMember(options: ForkOptions): Promise<ForkRow>;
  member(id: string): MemberRow;
  /**
   * Limits how many tokens the member's calls to the model may use from here on, as their providers count them; null takes
   * the limit away (the default). Each call reserves what it may take before it goes out; one that does not fit is refused
   * (400, `holdfast_budget_exhausted`), and nothing of it is sent. Throws MEMBER_UNKNOWN, REQUEST_INVALID.
   */
  setBudget(member: string, limitTokens: number | null): void;
  /** Null for a member without one. Throws MEMBER_UNKNOWN. */
  budgetOf(member: string): Budget | null;
  /**
   * Changes what a member was made with; the next turn is launched with it, and is RESTORED for that reason when a process
   * is resident. Throws MEMBER_UNKNOWN, REQUEST_INVALID.
   */
  changeMember(id: string, changes: Partial<MemberOptions>): MemberRow;
  /**
   * The context status that the member's next turn would have, and why, without spending it: nothing is sent, started or
   * changed. What only a resumed process could show is named in `toProve`. Throws MEMBER_UNKNOWN.
   */
  nextContext(member: string): Promise<NextContext>;
  /** What the member's CLI did by itself, with no turn of ours: the newest 200, oldest first. Throws MEMBER_UNKNOWN. */
  unrequestedOf(member: string): UnrequestedEntry[];
  membersOf(sandbox: string): MemberRow[];
  /**
   * Submits a message. Returns once the turn is durable here; everything else is the handle's to tell. Throws
   * MEMBER_BUSY while a turn of the member is open, INSPECTION_NEEDED after an `unknown` one that nobody has looked at.
   * With the id of a turn that was submitted before it sends nothing: the same member and text get that turn's handle
   * (running, or with its settlement), another one TURN_ID_USED.
   */
  submit(member: string, text: string, options?: TurnOptions): TurnHandle;
  /** A turn that runs now, or null. */
  running(turn: string): TurnHandle | null;
  turn(id: string): TurnRow;
  /**
   * What is known of a turn, without asking anybody: what was sent and how far it came, what it began and did not end,
   * what still waits for an answer, and where the native history is. Throws TURN_UNKNOWN.
   */
  inspect(turn: string): TurnInspection;
  /**
   * Records that somebody has looked at an `unknown` turn, after which its member may take turns again. The settlement
   * stays what it is. The same note again changes nothing. Throws NOTE_INVALID (1 to 1024 bytes), INSPECTION_NOT_NEEDED.
   */
  recordInspection(turn: string, note: string): InspectionRow;
  /** Permissions and questions of the member that wait for the user, oldest first; also after a restart. */
  openRequests(member: string): UserRequest[];
  /** Throws REQUEST_UNKNOWN, REQUEST_CLOSED, ABORT_NO_TURN. The turn's events tell what became of it. */
  answerPermission(params: Params<"permission.answer">): Promise<void>;
  /** `answers` null rejects the question. Throws as above, and REQUEST_INVALID for answers that do not fit. */
  answerQuestion(params: Params<"question.answer">): Promise<void>;
  /**
   * Whether controller, builds and sandboxes are one set: the revision of this controller, what each sandbox is measured as, and
   * what the bridge of each running one answers to a fresh challenge over its own link, with the age of its heartbeat. Nothing
   * is started or stopped. A model call that works is no substitute.
   */
  deployment(): Promise<DeploymentReport>;
  /** Resident processes, retained members, turns that wait for a start, memory. */
  report(): HostReport;
  /**
   * What a turn, a member or a sandbox used: what the providers stated of its calls through the relay, and beside it what
   * the CLI states of its turns. A call or a turn of which a counter is not known makes that sum null. The calls one by
   * one are `store.calls.list`. Throws TURN_UNKNOWN, MEMBER_UNKNOWN, SANDBOX_UNKNOWN.
   */
  usage(of: CallsOf): UsageReport;
  readonly store: Store;
  /** Lets go of everything; sandboxes and their turns go on. */
  close(): Promise<void>;
}
