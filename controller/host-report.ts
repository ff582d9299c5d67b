/** What a host carries, from its store alone: so it can be read beside the controller that runs. */
import { totalmem } from "node:os";
import { availableMemory } from "node:process";
import type { CliName } from "../protocol/locator.ts";
import type { Store } from "./store/store.ts";

export interface HostReport {
  /** CLI processes as their bridges told last, the longest unused first. */
  residents: Array<{
    member: string;
    sandbox: string;
    cli: CliName;
    /** Instants, epoch ms. */
    sinceAt: number;
    usedAt: number;
    /** Of all processes of its slot, shared pages counted in each; null when it was not looked at yet. */
    rssBytes: number | null;
    /** The turn that is open now, or null. */
    turn: string | null;
  }>;
  /** Members with at least one settled turn, resident or not. */
  retained: number;
  members: number;
  sandboxes: { running: number; stopped: number; unready: number };
  /** Turns that were admitted and are not sent yet: they wait for their start, or for their sandbox. */
  queue: Array<{ turn: string; member: string; sandbox: string; submittedAt: number }>;
  memory: { residentBytes: number; availableBytes: number; totalBytes: number };
}

/** @param machine memory of the host; its own figures by default */
export function hostReport(
  store: Pick<Store, "sandboxes" | "membersOf" | "openTurnsOf" | "residents">,
  machine: { availableBytes: number; totalBytes: number } = {
    availableBytes: availableMemory(),
    totalBytes: totalmem(),
  },
): HostReport {
  const sandboxes = store.sandboxes().filter(({ wanted }) => wanted !== "removed");
  const members = sandboxes.flatMap(({ id }) => store.membersOf(id));
  const open = sandboxes.flatMap(({ id }) => store.openTurnsOf(id).map((turn) => ({ ...turn, sandbox: id })));
  const known = new Map(members.map((member) => [member.id, member]));
  const residents = store.residents().flatMap((row) => {
    const member = known.get(row.member);
    if (member === undefined) return [];
    return [
      {
        member: row.member,
        sandbox: row.sandbox,
        cli: member.cli,
        sinceAt: row.since,
        usedAt: row.used_at,
        rssBytes: row.rss_bytes,
        turn: open.find((turn) => turn.member === row.member)?.id ?? null,
      },
    ];
  });
  const count = (fits: (row: (typeof sandboxes)[number]) => boolean) => sandboxes.filter(fits).length;
  return {
    residents,
    retained: members.filter(({ settled_turns }) => settled_turns > 0).length,
    members: members.length,
    sandboxes: {
      running: count(({ wanted }) => wanted === "running"),
      stopped: count(({ wanted }) => wanted === "stopped"),
      unready: count(({ unready }) => unready !== null),
    },
    queue: open
      .filter(({ launch, state }) => launch === null && state === "admitted")
      .map(({ id, member, sandbox, submitted_at }) => ({
        turn: id,
        member,
        sandbox,
        submittedAt: submitted_at,
      })),
    memory: { residentBytes: residents.reduce((sum, { rssBytes }) => sum + (rssBytes ?? 0), 0), ...machine },
  };
}
