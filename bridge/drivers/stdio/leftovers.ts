/**
 * Ends what the tools of an interrupted turn have left in the slot: a CLI that stays resident for the next turn ends at
 * most its own process groups. Only processes that began in the turn are ended, and never the CLI itself.
 */
import { readFile } from "node:fs/promises";
import type { Clock } from "../../../protocol/clock.ts";
import { killEntry, listSlot, type ProcessEntry, type SlotMark } from "../../census.ts";

/** Units of a process's start time a second, on every architecture of Linux that Node runs on. */
const TICKS = 100;
const PAUSE_MS = 10;

/** The moment as the kernel writes the start of a process: ticks since boot, rounded down. */
export async function ticksNow(): Promise<number> {
  const [seconds = ""] = (await readFile("/proc/uptime", "utf8")).split(" ");
  return Math.floor(Number(seconds) * TICKS);
}

/**
 * Rounds until nothing is left: a process may fork between the look and the kill. Returns what is there at the limit.
 * To be over before the next turn begins: that one's processes are younger too.
 * @param except the CLI's own process
 */
export async function endLeftovers(options: {
  mark: SlotMark;
  clock: Clock;
  limitMs: number;
  sinceTicks: number;
  except: number;
}): Promise<ProcessEntry[]> {
  const { mark, clock, sinceTicks, except } = options;
  const deadlineMs = clock.monotonicMs() + options.limitMs;
  for (;;) {
    const left = (await listSlot(mark)).filter(
      ({ pid, startTicks }) => pid !== except && Number(startTicks) >= sinceTicks,
    );
    if (left.length === 0 || clock.monotonicMs() >= deadlineMs) return left;
    for (const entry of left) await killEntry(entry);
    await new Promise<void>((resolve) => clock.after(PAUSE_MS, resolve));
  }
}
