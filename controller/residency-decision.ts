/**
 * Which resident CLI processes may stay, and when a new one may start: pure decisions over facts. Waits and retirements
 * are the shell's (`residency.ts`). A member in use is never among those to retire.
 */

export interface ResidentFact {
  member: string;
  /** A turn of it is open: admitted, wherever it stands. */
  isBusy: boolean;
  /** Since its last turn ended, or since it was first seen. */
  idleMs: number;
  /** Order of last use: the lowest was used longest ago. A number and not a time: clocks jump. */
  order: number;
  /** Of all its slot's processes, when they were last looked at; null before. */
  rssBytes: number | null;
}

export interface ResidencyLimits {
  /** A resident process without a turn for this long is retired. */
  idleMs: number;
  /** Resident processes of all sandboxes. */
  residents: number;
  /** Their memory together. */
  memoryBytes: number;
  /** What a process that starts is counted with until it was looked at. OpenCode: 320 to 550 MB. */
  startBytes: number;
  /** Processes that start at once: one start costs two CPU seconds, and three at once take 7 s each. */
  starts: number;
  /** Turns that wait for their start. Beyond: OVERLOADED, `not_sent`. */
  waiting: number;
  /** How long one waits at most. Beyond: OVERLOADED, `not_sent`. */
  waitMs: number;
}

export type StartDecision =
  | { kind: "start" }
  /** These first, then decide again. */
  | { kind: "retire"; members: string[]; reason: string }
  | { kind: "wait"; reason: string };

/** Those whose time is over. */
export function decideIdle(residents: readonly ResidentFact[], limits: ResidencyLimits): string[] {
  return residents
    .filter(({ isBusy, idleMs }) => !isBusy && idleMs >= limits.idleMs)
    .map(({ member }) => member);
}

/**
 * May one more process start? Room is made from the longest unused. Alone on the host, one always may: a budget below
 * one process would be no budget.
 * @param starting how many are starting now
 */
export function decideStart(
  residents: readonly ResidentFact[],
  starting: number,
  limits: ResidencyLimits,
): StartDecision {
  if (starting >= limits.starts) return { kind: "wait", reason: `${starting} processes are starting` };
  const overBefore = overrun(residents, starting, limits);
  if (overBefore === null) return { kind: "start" };
  const idle = residents.filter(({ isBusy }) => !isBusy).sort((a, b) => a.order - b.order);
  const members: string[] = [];
  let left = [...residents];
  for (const { member } of idle) {
    members.push(member);
    left = left.filter((resident) => resident.member !== member);
    if (overrun(left, starting, limits) === null || left.length + starting === 0)
      return { kind: "retire", members, reason: overBefore };
  }
  if (residents.length + starting === 0) return { kind: "start" };
  return { kind: "wait", reason: overBefore };
}

/** What one more process would exceed, or null. */
function overrun(
  residents: readonly ResidentFact[],
  starting: number,
  { residents: most, memoryBytes, startBytes }: ResidencyLimits,
): string | null {
  const count = residents.length + starting + 1;
  if (count > most) return `more than ${most} resident processes`;
  const known = residents.reduce((sum, { rssBytes }) => sum + (rssBytes ?? startBytes), 0);
  const bytes = known + (starting + 1) * startBytes;
  return bytes > memoryBytes ? `more than ${Math.round(memoryBytes / 1e6)} MB of resident processes` : null;
}
