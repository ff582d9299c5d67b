/**
 * What the kernel has ended in this container for want of memory, as its own counter says: it is there whoever was ended
 * (the engine's flag knows the init alone), and while the engine is away. Noted with the turn; it decides nothing, the
 * native process's own end does.
 */
import { readFile } from "node:fs/promises";
import type { Clock } from "../protocol/clock.ts";
import type { Evidence } from "../protocol/evidence.ts";

const CONTROL_GROUPS = "/sys/fs/cgroup";
/** Of the second version of control groups, and of the first. */
const COUNTERS = ["memory.events", "memory/memory.oom_control"];

/** Null where the kernel counts nothing. */
export async function memoryKills(root: string = CONTROL_GROUPS): Promise<number | null> {
  for (const file of COUNTERS) {
    const text = await readFile(`${root}/${file}`, "utf8").catch(() => "");
    const count = /^oom_kill (\d+)$/m.exec(text)?.[1];
    if (count !== undefined) return Number(count);
  }
  return null;
}

/** Begins now; what it returns tells later what was ended since. */
export function watchMemory(
  clock: Clock,
  read: () => Promise<number | null> = memoryKills,
): () => Promise<Evidence[]> {
  const before = read();
  return async () => {
    const [then, now] = [await before, await read()];
    if (then === null || now === null || now <= then) return [];
    return [
      {
        what: "out_of_memory",
        source: "process",
        processGeneration: null,
        subscription: null,
        sequence: null,
        at: clock.nowAt(),
        detail: `the kernel ended ${now - then} process(es) of the sandbox for want of memory during the turn`,
      },
    ];
  };
}
