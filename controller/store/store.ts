/**
 * The store's contract: what the controller keeps, in whole steps. Each call is one transaction, durable when it
 * returns (law 3), and checked against this controller's fence (law 12). SQLite and
 * PostgreSQL keep the same one.
 */

import type { ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import type { CliName, ContainerIdentity, Locator } from "../../protocol/locator.ts";
import type { ModelCaller } from "../../protocol/model-token.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { JournalSight } from "./follow.ts";
import type { Forks } from "./forks.ts";
import type { LaunchRevision } from "./launch-revisions.ts";
import type { ModelCalls } from "./model-calls.ts";
import type { Hosts } from "./postgres/hosts.ts";
import type {
  ForkRow,
  InspectionRow,
  MemberOptions,
  MemberRow,
  SandboxKind,
  SandboxRow,
  TurnRow,
  Wanted,
} from "./records.ts";
import type { ResidentRow, SeenResident } from "./residents.ts";

interface NewTurn {
  id: string;
  member: string;
  textSha256: string;
  textBytes: number;
}

/** A `member.unrequested` event, and when the bridge saw it. */
export interface UnrequestedEntry {
  at: number;
  event: Extract<ControlEvent, { type: "member.unrequested" }>;
}

/** What an applied batch of events changed, for whoever waits. */
export interface Applied {
  /** Those that were new here, in order. */
  events: NumberedEvent[];
  /** Settlements as they were stored: identity may have turned one into a failure. */
  settled: Array<{ turn: string; settlement: Settlement }>;
  /** Turns that must be ended: their native id belongs to another member. */
  conflicts: string[];
}

export interface Store {
  /** Random, made with the store; marks what belongs to it elsewhere. */
  readonly id: string;
  /** Of this controller: rises by one at each opening, and above what a sandbox has seen. One that is only read has its owner's. */
  readonly fence: number;
  /** What this controller drives the sandbox with; only rises, whichever controller has it. */
  fenceOf(sandbox: string): number;
  /** The hosts that share the store; null for one that a single controller has. */
  readonly hosts: Hosts | null;
  /** Throws FENCED when it is another controller's by now, LEASE_LOST; for what is done without a write. */
  checkOwned(): void;
  /**
   * Raises a sandbox's fence above one that it has seen: the store was restored from a backup, since nobody else can own it.
   * Throws FENCED when this controller does not own it any more, or when the number is beyond all reason.
   */
  raiseFence(sandbox: string, above: number): void;
  createSandbox(row: { id: string; kind: SandboxKind; directory: string }): void;
  bindContainer(sandbox: string, container: ContainerIdentity): void;
  setWanted(sandbox: string, wanted: Wanted): void;
  setUnready(sandbox: string, reasons: readonly string[] | null): void;
  sandbox(id: string): SandboxRow | null;
  sandboxes(): SandboxRow[];

  createMember(row: { id: string; sandbox: string; cli: CliName; options: MemberOptions }): void;
  /** Takes effect with the member's next turn. Throws MEMBER_UNKNOWN. */
  setMemberOptions(member: string, options: MemberOptions): void;
  member(id: string): MemberRow | null;
  membersOf(sandbox: string): MemberRow[];

  /** Null for a member that was not made as a fork. */
  forkOf(member: string): ForkRow | null;
  /**
   * One step of a fork; what it throws undoes it.
   * @param of the fork's member, or the parent of one that is to be made
   */
  changeForks<T>(of: string, step: (forks: Forks) => T): T;

  /**
   * Admits a turn: gives it its number, durable before anything is sent. Throws MEMBER_BUSY while the member has an open
   * turn, INSPECTION_NEEDED while it has an unknown one without a note, FORK_UNFINISHED or FORK_FAILED for such a fork.
   */
  admit(turn: NewTurn): { turn: TurnRow; member: MemberRow };
  turn(id: string): TurnRow | null;
  /**
   * What the turn's CLI is launched with and how long it waited for that, durable before anything is sent. Returns the
   * digest of the bytes. Throws LAUNCH_LIMIT, and STORE_DAMAGED when other bytes are kept under their digest.
   */
  noteLaunch(turn: string, bytes: Uint8Array, queuedMs: number): string;
  /** Null for a turn that was not launched, and for one of a store's first layout. Throws STORE_DAMAGED. */
  launchOf(turn: string): LaunchRevision | null;
  /** Oldest first. Throws STORE_DAMAGED. */
  launchesOf(member: string): LaunchRevision[];
  turnsOf(member: string, limit: number): TurnRow[];
  openTurnsOf(sandbox: string): TurnRow[];
  /** Without its end, which is in the row; one that came after the row had ended is here. */
  eventsOf(turn: string): NumberedEvent[];
  /** What the member's CLI did with no turn of ours, oldest first; the newest of it is kept. */
  unrequestedOf(member: string): UnrequestedEntry[];
  /** An unknown turn of the member that nobody has looked at, or null. */
  unknownTurnOf(member: string): TurnRow | null;
  inspectionOf(turn: string): InspectionRow | null;
  /**
   * Keeps the note of whoever looked at an unknown turn; what the turn's row says stays as it is. The same note again
   * changes nothing. Throws TURN_UNKNOWN, INSPECTION_NOT_NEEDED.
   */
  recordInspection(turn: string, note: string): InspectionRow;

  /**
   * Starts to follow a bridge's journal and returns the sequence number that was applied of it. Turns that another
   * journal, a head behind what was applied, or events that were dropped before they were applied leave without an answer
   * become `unknown`: the sandbox's state was lost or set back, or the store was. All members of the sandbox must then be
   * proven. Turns that were not sent yet have lost nothing.
   */
  follow(
    sandbox: string,
    journal: JournalSight,
    unsent?: ReadonlySet<string>,
  ): { applied: number; lost: Array<{ turn: string; settlement: Settlement }> };
  /**
   * Applies events in order, each once. What concerns turns or members that this store does not have is passed over: it is
   * older than they are. Throws FRAME_INVALID at a gap, and for what is another sandbox's.
   */
  apply(sandbox: string, entries: readonly NumberedEvent[]): Applied;
  /**
   * Takes over the numbers of turns that a bridge has accepted: the next submission gets one above. Returns the members
   * of which the store knew fewer; they must be proven.
   */
  learnNumbers(sandbox: string, numbers: ReadonlyArray<{ member: string; number: number }>): string[];
  /** Ends a turn by the host's own knowledge (never received, container gone). No effect on one that has ended. */
  end(turn: string, settlement: Settlement): boolean;
  /** Whether that CLI process may ask the model: not once it has ended, another took its place, or its bridge has. */
  mayCall(sandbox: string, caller: ModelCaller): boolean;
  /** Resident processes of all sandboxes, the longest unused first. */
  residents(): ResidentRow[];
  /** What a bridge says of its processes; [] when it has none or does not run. */
  setResidents(sandbox: string, seen: readonly SeenResident[]): void;
  /** Calls of models through the relay. */
  readonly calls: ModelCalls;
  locatorHistory(member: string): Locator[];
  audit(what: string, subject: string, detail: string): void;
  close(): void;
}
