/**
 * The store's contract: what the controller keeps, in whole steps. Each call is one transaction, durable when it
 * returns (law 3), and checked against this controller's fence (law 12). PostgreSQL joins behind the same contract.
 */
import type { NumberedEvent } from "../../protocol/events.ts";
import type { Cursor } from "../../protocol/frame.ts";
import type { CliName, ContainerIdentity, Locator } from "../../protocol/locator.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { LaunchRevision } from "./launch-revisions.ts";
import type { MemberOptions, MemberRow, SandboxKind, SandboxRow, TurnRow, Wanted } from "./records.ts";
import type { ResidentRow, SeenResident } from "./residents.ts";

interface NewTurn {
  id: string;
  member: string;
  textSha256: string;
  textBytes: number;
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
  readonly fence: number;
  createSandbox(row: { id: string; kind: SandboxKind; directory: string }): void;
  bindContainer(sandbox: string, container: ContainerIdentity): void;
  setWanted(sandbox: string, wanted: Wanted): void;
  setUnready(sandbox: string, reasons: readonly string[] | null): void;
  sandbox(id: string): SandboxRow | null;
  sandboxes(): SandboxRow[];

  createMember(row: { id: string; sandbox: string; cli: CliName; options: MemberOptions }): void;
  member(id: string): MemberRow | null;
  membersOf(sandbox: string): MemberRow[];

  /**
   * Admits a turn: gives it its number, durable before anything is sent. Throws MEMBER_BUSY while the member has a turn
   * that is open or unknown.
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
  eventsOf(turn: string): NumberedEvent[];

  /**
   * Starts to follow a bridge's journal and returns the sequence number that was applied of it. Turns that another
   * journal, or a head behind what was applied, leaves without an answer become `unknown`: the sandbox's state was
   * lost or rolled back. Those that were not sent yet have lost nothing.
   */
  follow(
    sandbox: string,
    head: Cursor,
    unsent?: ReadonlySet<string>,
  ): { applied: number; lost: Array<{ turn: string; settlement: Settlement }> };
  /** Applies events in order, each once. Throws FRAME_INVALID at a gap. */
  apply(sandbox: string, entries: readonly NumberedEvent[]): Applied;
  /** Ends a turn by the host's own knowledge (never received, container gone). No effect on one that has ended. */
  end(turn: string, settlement: Settlement): boolean;
  /** Resident processes of all sandboxes, the longest unused first. */
  residents(): ResidentRow[];
  /** What a bridge says of its processes; [] when it has none or does not run. */
  setResidents(sandbox: string, seen: readonly SeenResident[]): void;
  locatorHistory(member: string): Locator[];
  audit(what: string, subject: string, detail: string): void;
  close(): void;
}
