/** What a soak has done so far, and the table with which it ends. */
import type { Settlement } from "../../protocol/settlement.ts";

export interface Tally {
  fault(name: string): void;
  outcome(fault: string, settlement: Settlement, retries: number): void;
  /** A submission that was refused before it was a turn. */
  notAdmitted(fault: string, code: string): void;
  turns(): number;
  table(): string;
}

export function createTally(): Tally {
  const faults = new Map<string, { times: number; ends: Map<string, number> }>();
  const contexts = new Map<string, number>();
  let turns = 0;
  let retried = 0;
  const rowOf = (name: string) => {
    const found = faults.get(name) ?? { times: 0, ends: new Map<string, number>() };
    faults.set(name, found);
    return found;
  };
  const add = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  const listed = (counts: Map<string, number>) =>
    [...counts]
      .sort()
      .map(([name, count]) => `${count} ${name}`)
      .join(", ");
  return {
    fault: (name) => {
      rowOf(name).times += 1;
    },
    outcome(name, { outcome, settled, context }, retries) {
      turns += 1;
      retried += retries;
      add(rowOf(name).ends, settled || outcome !== "failed" ? outcome : "failed unsettled");
      add(contexts, context ?? "no context");
    },
    notAdmitted: (name, code) => add(rowOf(name).ends, `not admitted (${code})`),
    turns: () => turns,
    table() {
      const rows = [...faults].map(
        ([name, { times, ends }]) => `${name.padEnd(24)}${String(times).padStart(6)}   ${listed(ends)}`,
      );
      return [
        `${"fault".padEnd(24)}${"times".padStart(6)}   outcomes of the turns that it met`,
        ...rows,
        `${turns} turns: ${listed(contexts)}; ${retried} requests were repeated by the CLIs after a cut answer`,
      ].join("\n");
    },
  };
}
